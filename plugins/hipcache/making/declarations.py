"""What a module declares of what a reader of bitcode may upgrade (llvm/lib/IR/AutoUpgrade.cpp), and its assembly.

A reader replaces an intrinsic that its LLVM has no more, or has with another type, by its name: a function `llvm.*` (or
`clang.arc.use`). Clang makes such a function only where an asm label says so, and whoever compiles in one step leaves
it as it is. The texts of sections and of assembly are a source's own, too, and a reader replaces some of those.

Each is an item: a text in which no number of this module stands, so that two modules have the same one if they declare
the same. The records are in llvm/include/llvm/Bitcode/LLVMBitCodes.h, and in LLVM's Language Reference.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress

from hipcache import native
from hipcache.inputs.keys import digest_bytes

Record = tuple[int, ...]

MAGIC = b"BC\xc0\xde"
_INTRINSIC = b"llvm."
# A reader makes an intrinsic of its calls, and leaves its other uses (`UpgradeARCRuntime`): a declaration says nothing.
_BY_ITS_CALLS = b"clang.arc.use"
_SECTION_NAME, _FUNCTION, _VARIABLE = 5, 8, 7
# In the record of a function, behind its name: its type, its attributes, its section, and the first that is not one of
# its own (of a partition).
_TYPE, _ATTRIBUTES, _SECTION, _REST = 3, 7, 9, 20
_LINKAGE, _APPENDING = 6, 2
# Of types: those of numbers alone; those with types among their operands (from where on, to where).
_NUMBER_OF_TYPES, _STRUCT_NAME, _STRUCT_NAMED, _TARGET_TYPE = 1, 19, 20, 26
_PLAIN_TYPES = {2, 3, 4, 5, 6, 7, 10, 13, 14, 15, 16, 17, 22, 23, 24, 25, 27}
_WITH_TYPES = {8: (1, 2), 11: (2, 3), 12: (2, 3), 18: (2, None), 20: (2, None), 21: (2, None)}
# What stands before an attribute that is a type.
_TYPE_ATTRIBUTES = {5, 6}


class Unknown(Exception):
    """The module has records of another form."""


def items(content: bytes) -> frozenset[str] | None:
    """Digests of all that a reader may upgrade in the module; None if that is not known, or if something has a name
    that only LLVM itself gives. What is no bitcode declares nothing."""
    if not content.startswith(MAGIC):
        return frozenset()
    said = native.declarations(content)
    if said is None:
        return None
    with suppress(Unknown, IndexError, struct.error):
        return frozenset(digest_bytes(item) for item in _items(said[0]))
    return None


def _items(parts: list[tuple[bytes, bytes]]) -> Iterator[bytes]:
    if sum(kind == b"m" for kind, _ in parts) != 1:
        raise Unknown
    names = b"".join(part for kind, part in parts if kind == b"n")
    module = _Module({kind: _records(parts, kind) for kind in (b"t", b"l", b"g")})
    records = list(_records(parts, b"r"))
    sections = [bytes(char & 255 for char in record[1:]) for record in records if record[0] == _SECTION_NAME]
    for record in records:
        if record[0] == _SECTION_NAME:
            continue
        if names[record[1] : record[1] + record[2]] == _BY_ITS_CALLS:
            raise Unknown
        if not names.startswith(_INTRINSIC, record[1]):
            continue
        if record[0] == _FUNCTION:
            name = names[record[1] : record[1] + record[2]]
            rest = [
                *record[_TYPE + 1 : _ATTRIBUTES],
                *record[_ATTRIBUTES + 1 : _SECTION],
                *record[_SECTION + 1 : _REST],
            ]
            section = sections[record[_SECTION] - 1] if record[_SECTION] else b""
            own = (module.type(record[_TYPE]), module.attributes(record[_ATTRIBUTES]), rest, section)
            yield b"function %b %b" % (name, repr(own).encode())
        elif record[0] != _VARIABLE or record[_LINKAGE] != _APPENDING:  # which no source can ask for
            raise Unknown
    yield from (b"section %b" % name for name in sections)
    yield from (b"assembly %b" % part for kind, part in parts if kind == b"a")


def _records(parts: list[tuple[bytes, bytes]], kind: bytes) -> list[Record]:
    return [struct.unpack(f"<{len(part) // 8}Q", part) for found, part in parts if found == kind]


class _Module:
    """Its tables of types and attributes, in which one refers to another by number."""

    def __init__(self, tables: dict[bytes, list[Record]]) -> None:
        self._lists = tables[b"l"]
        self._groups = {record[1]: record[2:] for record in tables[b"g"]}
        self._all_types = tables[b"t"]
        self._types: list[tuple[bytes, Record]] = []
        name = b""
        for record in tables[b"t"]:
            if record[0] == _STRUCT_NAME:
                name = bytes(char & 255 for char in record[1:])
            elif record[0] != _NUMBER_OF_TYPES:
                self._types.append((name if record[0] == _STRUCT_NAMED else b"", record))

    def type(self, number: int, inside: tuple[int, ...] = ()) -> str:
        if number in inside:  # a structure with a pointer to itself
            return f"{len(inside) - inside.index(number)} up"
        name, record = self._types[number]
        if record[0] in _PLAIN_TYPES:
            return repr(record)
        if record[0] == _TARGET_TYPE:
            first, end = 2, 2 + record[1]
        elif record[0] in _WITH_TYPES:
            first, end = _WITH_TYPES[record[0]][0], _WITH_TYPES[record[0]][1] or len(record)
        else:
            raise Unknown
        inner = [self.type(one, (*inside, number)) for one in record[first:end]]
        return repr((name, record[:first], inner, record[end:]))

    def attributes(self, number: int) -> str:
        groups = [self._groups[one] for one in self._lists[number - 1][1:]] if number else []
        # The number of a type says nothing without all types; where it stands depends on the attribute.
        types = any(_TYPE_ATTRIBUTES & set(group[1:]) for group in groups)
        return repr((groups, self._all_types if types else []))
