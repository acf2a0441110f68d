"""The part of a front end's bitcode that matters to a back end: all but the place of the source and the CUID of its
object.

CMake names a source from the root, SCons and Meson from a directory, and each front end notes the name in its bitcode
(`source_filename`). No back end for AMD GPUs writes it. It moves all that stands behind it, so two digests of the
file would differ: this one is of the module's contents.

From clang 18 on a module has a global variable `__hip_cuid_<hash of the CUID>`, which differs between all objects of a
project. It is one byte that nothing reads: a back end's object for one CUID is that for another one under another
name of the same length. (What the linker makes has tables of names, too: `code_object`.)

What such a module says is read in C (`native/library/bitcode.c`). What is not known there is taken by the bytes of the
file.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import product
from pathlib import Path

from hipcache.base import native
from hipcache.base.keys import digest_bytes
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass
from hipcache.clang.cuid import clangs_hash

# What a module declares of what a reader of bitcode may upgrade (llvm/lib/IR/AutoUpgrade.cpp), and its assembly.
#
# A reader replaces an intrinsic that its LLVM has no more, or has with another type, by its name: a function `llvm.*`
# (or `clang.arc.use`). Clang makes such a function only where an asm label says so, and whoever compiles in one step
# leaves it as it is. The texts of sections and of assembly are a source's own, too, and a reader replaces some of
# those.
#
# Each is an item: a text in which no number of this module stands, so that two modules have the same one if they
# declare the same. The records are in llvm/include/llvm/Bitcode/LLVMBitCodes.h, and in LLVM's Language Reference.

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


def declared_items(content: bytes) -> frozenset[str] | None:
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
        inner = [self.type(value, (*inside, number)) for value in record[first:end]]
        return repr((name, record[:first], inner, record[end:]))

    def attributes(self, number: int) -> str:
        groups = [self._groups[group] for group in self._lists[number - 1][1:]] if number else []
        # The number of a type says nothing without all types; where it stands depends on the attribute.
        types = any(_TYPE_ATTRIBUTES & set(group[1:]) for group in groups)
        return repr((groups, self._all_types if types else []))


# Of a character of a text in bitcode: 7 bits, or 8, or twice 6 (LLVM Language Reference, "LLVM Bitcode File Format";
# `CST_CODE_CSTRING`, fixed(7), or VBR6 where there is no abbreviation).
Widths = tuple[tuple[int, Callable[[int], int]], ...]
UNABBREVIATED: Widths = ((12, lambda char: (char & 31 | 32) | char >> 5 << 6),)
_WIDTHS: Widths = ((7, int), (8, int), *UNABBREVIATED)


def rows(texts: Iterable[bytes], widths: Widths = _WIDTHS) -> Iterator[bytes]:
    """The bytes that lie whole within a text in bitcode, which begins at any bit of a byte, for each width of a
    character."""
    for text in texts:
        for width, encode in widths:
            bits = sum(encode(char) << (width * number) for number, char in enumerate(text))
            for shift in range(8):
                end = shift + width * len(text)
                whole = (bits << shift).to_bytes(end // 8 + 1, "little")
                yield whole[bool(shift) : end // 8]


# May bitcode have inline assembly that reads a file, in its functions or of the module?
#
# Who compiles the bitcode assembles that, and no key or trace says what `.include` and `.incbin` read then. Names of
# directives are in upper or lower case (llvm/lib/MC/MCParser/AsmParser.cpp); an operand may stand for the end of one,
# and a macro put it together. A comment of assembly that has the beginning of one costs a back end each time, no more.
#
# The text has no abbreviation in bitcode (llvm/lib/Bitcode/Writer/BitcodeWriter.cpp), so a search for rows of bytes
# (3 ms for each MB) finds each; but it finds them in other records, too: "funclet" is in each module of LLVM 23. So
# where there is such a row, the assembly of each module is read. What is no module, or does not read, is left to the
# rows.

INCLUDES = "its inline assembly may read a file"
_DIRECTIVES = ("incb", "incl", "inc$", ".mac", ".irp")


def may_include(path: Path | str) -> bool:
    """May bitcode, or a file that contains some, have such assembly? Raises OSError."""
    if not native.search(str(path), _directive_rows()):
        return False
    content, at, rest = Path(path).read_bytes(), 0, b""
    while (start := content.find(MAGIC, at)) >= 0:
        said = native.declarations(content, start)
        end = said[1] if said else start + len(MAGIC)
        rest += content[at : start if said else end]
        if said and any(_has_directive(text) for kind, text in said[0] if kind == b"a"):
            return True
        at = end
    rest += content[at:]
    return any(row in rest for row in _directive_rows())


def _has_directive(text: bytes) -> bool:
    lower = text.lower()
    return any(beginning.encode() in lower for beginning in _DIRECTIVES)


@cache
def _directive_rows() -> list[bytes]:
    cases = (product(*({letter, letter.upper()} for letter in beginning)) for beginning in _DIRECTIVES)
    found = list(rows(("".join(letters).encode() for case in cases for letters in case), UNABBREVIATED))
    size = min(map(len, found))
    return sorted({row[:size] for row in found})


# Does an output name a type without a name? Clang calls it by the place where it stands: `(lambda at x.hip:3:4)`.
#
# Such a name gets into strings by `__PRETTY_FUNCTION__`, also by that of a header's function whose template argument
# the type is. In an object a string is a row of bytes, in bitcode one of bits (`rows`). Characters of 6 bits
# have no blanks.

# clang/lib/AST/TypePrinter.cpp, `printTag`. An anonymous namespace may be taken for such a type.
_NAMES = (b"(lambda at ", b"(unnamed ", b"(anonymous ")


def in_object(content: bytes) -> bool:
    return any(name in content for name in _NAMES)


def in_bitcode(content: bytes) -> bool:
    return bool(native.search_in(content, _BEGINNINGS))


def shows(content: bytes, text: bytes) -> bool:
    """May bitcode have the text as a string?"""
    return any(row in content for row in rows([text]))


# Seven bytes or more: what is found by chance only costs a share.
_ROWS = tuple(rows(_NAMES))
_BEGINNINGS = sorted({row[: min(map(len, _ROWS))] for row in _ROWS})


_PREFIX = b"__hip_cuid_"
_MARK = 16
# No library of the host has such functions.
_OF_LIBRARIES = (b"llvm.", b"__ocml_", b"__ockl_", b"__llvm_")
_NAMED = pattern(_PREFIX + rb"([0-9a-f]{16})(?![0-9a-f])")


@dataclass(frozen=True)
class Bitcode:
    """`digest`: of what it says to a back end; empty if a reader would change that. `neutral`: the same but for its
    CUID, `mark`, which is the hash in the name of that variable; both empty if it has no such variable, or may have the
    hash elsewhere too."""

    digest: str
    neutral: str = ""
    mark: bytes = b""


# What a back end would not read as the front end wrote it.
IN_ONE_STEP = Bitcode("")


def read(content: bytes, cuid: str) -> Bitcode:
    """`cuid` as the front end got it."""
    mark = clangs_hash(cuid).encode()
    if not names_only(content, mark):
        return Bitcode(_essence(content))
    neutral = _essence(content.replace(mark, b"0" * len(mark)))
    return Bitcode(_with_mark(neutral, mark), neutral, mark)


def digest_for(neutral: str, cuid: str) -> str:
    """The digest that another module would have which differs in nothing but its CUID; empty if that is not known."""
    mark = clangs_hash(cuid).encode()
    return _with_mark(neutral, mark) if len(mark) == _MARK else ""


def _with_mark(neutral: str, mark: bytes) -> str:
    return digest_bytes(neutral.encode() + mark)


def names_only(content: bytes, mark: bytes) -> bool:
    """Does the hash stand in the variable's name, and nowhere else? One of fewer digits might be found by chance."""
    return len(mark) == _MARK and 0 < content.count(mark) == content.count(_PREFIX + mark)


def names(content: bytes, path: str) -> bool:
    """May what it says to a back end show the path? (Where the source lies, it does not say.)"""
    said = native.bitcode(content) if path else None
    return bool(path) and shows(content if said is None else said, os.fsencode(path))


def reads_files(content: bytes, path: Path) -> str:
    """The reason to think that who compiles it reads other files, if it is bitcode; `path` has that content, too."""
    return INCLUDES if content.startswith(MAGIC) and may_include(path) else ""


def lacks_functions(content: bytes) -> bool:
    """Does it declare a function that it does not define, and that is none of LLVM's or of the device libraries? (True
    if it does not read.)

    The text of `native/library/bitcode.c` has all records of the module, and the names (LangRef:
    MODULE_CODE_FUNCTION)."""
    said = native.bitcode(content)
    parts = list(native.parts(said)) if said else []
    strings = next((part for kind, part in parts if kind == b"n"), None)
    if strings is None:
        return True
    records = (struct.unpack(f"<{len(part) // 8}Q", part) for kind, part in parts if kind == b"r")
    prototypes = (record for record in records if record[0] == _FUNCTION and record[5])
    return any(
        not strings[prototype[1] : prototype[1] + prototype[2]].startswith(_OF_LIBRARIES) for prototype in prototypes
    )


def names_in_object(content: bytes) -> bytes:
    """The hash of the CUID in the name of the object's variable, if it is nowhere else; else nothing."""
    found = set(_NAMED.findall(content))
    mark = found.pop() if len(found) == 1 else b""
    return mark if mark and names_only(content, mark) else b""


def _essence(content: bytes) -> str:
    said = native.bitcode(content)
    return digest_bytes(content if said is None else said)
