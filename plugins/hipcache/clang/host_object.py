"""Edits of a host object that the compiler need not make: its fat binary, and its CUID.

The host pass copies its gpubinary into section `.hip_fatbin` (a package of the new offload driver into
`.llvm.offloading`) and looks at nothing in it, so a host object does not depend on the offload archs: it is compiled
with a placeholder. Replacing the section moves all that follows it: the file is laid out again as LLVM's ELF writer
does (llvm/lib/MC/ELFObjectWriter.cpp): sections in the order of their offsets, each at its alignment, padded before
NOBITS too, the section headers last at a multiple of 8. `llvm-objcopy --update-section` comes close but drops the
`sh_link` of `.llvm_addrsig`.

The CUID stands in the names of symbols. The string table is laid out as LLVM does
(llvm/lib/MC/StringTableBuilder.cpp): the names of sections and symbols, sorted from their ends, and one that ends
another within that one. All else in the object stays as it is, so the CUID must be nowhere else.

Formats: ELF-64 little-endian, relocatable (System V ABI, chapter 4).
"""

from __future__ import annotations

import re
import struct

from hipcache.base import elf
from hipcache.base.values import dataclass

# Of the fat binary, and of the new driver's package.
SECTIONS = (b".hip_fatbin", b".llvm.offloading")

# No real fat binary looks like this; the length is odd so that a byte clang adds behind it is seen.
PLACEHOLDER = b"hipcache: the fat binary goes here / " * 3

_SYMBOLS = 2  # SHT_SYMTAB
_NOBITS = 8
_RELOCATABLE = 1


class UnknownObject(Exception):
    """The object is not laid out as this module knows it."""


@dataclass
class _Section:
    """`fields`: sh_name type flags addr offset size link info addralign entsize. `alignment` is what the writer kept
    to: a compressed section is placed before it is compressed, so at the alignment that its own header tells."""

    index: int
    fields: list[int]
    alignment: int

    @property
    def offset(self) -> int:
        return self.fields[4]

    @property
    def size(self) -> int:
        return self.fields[5]

    @property
    def nobits(self) -> bool:
        return self.fields[1] == _NOBITS


def has_fat_binary(template: bytes) -> bool:
    """False for the object of a source without kernels. Raises UnknownObject."""
    return _find(template)[1] is not None


def splice(template: bytes, fat_binary: bytes, placeholder: bytes = PLACEHOLDER) -> bytes:
    """The object that clang writes when `fat_binary` is its gpubinary, not `placeholder`. Raises UnknownObject."""
    sections, target = _find(template, placeholder)
    if target is None:
        return template
    offsets = [0, *(section.offset for section in sections[1:])]
    if sections_layout(sections, {}) != (offsets, elf.HEADER.unpack_from(template)[6]):
        raise UnknownObject("its sections are not in LLVM's layout")
    held = template[target.offset : target.offset + target.size]
    # clang 15 writes a NUL behind the fat binary, clang 19 does not: what follows the placeholder stays.
    content = fat_binary + held[len(placeholder) :]
    offsets, headers = sections_layout(sections, {target.index: len(content)})
    out = bytearray(headers + len(sections) * elf.SECTION.size)
    fields = list(elf.HEADER.unpack_from(template))
    fields[6] = headers
    elf.HEADER.pack_into(out, 0, *fields)
    for section, offset in zip(sections, offsets, strict=True):
        row = list(section.fields)
        if section.index:
            row[4] = offset
        if section.index == target.index:
            row[5] = len(content)
            out[offset : offset + len(content)] = content
        elif section.index and not section.nobits:
            out[offset : offset + section.size] = template[section.offset : section.offset + section.size]
        elf.SECTION.pack_into(out, headers + section.index * elf.SECTION.size, *row)
        if section.fields[1] == _SYMBOLS:
            _resize_symbols(out, offset, section.size, target, len(content))
    return bytes(out)


def _resize_symbols(out: bytearray, start: int, length: int, target: _Section, size: int) -> None:
    """The fat binary's own symbol, which is there with -msave-temp-labels, tells its size."""
    for at in range(start, start + length - elf.SYMBOL.size + 1, elf.SYMBOL.size):
        *fields, section, value, old = elf.SYMBOL.unpack_from(out, at)
        if section != target.index or (value, old) == (0, 0):
            continue
        if (value, old) != (0, target.size):
            raise UnknownObject("a symbol points into the fat binary")
        elf.SYMBOL.pack_into(out, at, *fields, section, value, size)


def sections_layout(sections: list[_Section], sizes: dict[int, int]) -> tuple[list[int], int]:
    """(offset of each section by index, offset of the section headers), with some sizes replaced."""
    offsets = [0] * len(sections)
    position = elf.HEADER.size
    for section in sorted(sections[1:], key=lambda s: (s.offset, s.size > 0 and not s.nobits, s.index)):
        position = _align(position, section.alignment)
        offsets[section.index] = position
        if not section.nobits:
            position += sizes.get(section.index, section.size)
    return offsets, _align(position, 8)


def _align(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment if alignment > 1 else position


def _section(index: int, template: bytes, fields: tuple[int, ...]) -> _Section:
    alignment = fields[8]
    if fields[2] & elf.SHF_COMPRESSED:
        alignment = elf.COMPRESSION.unpack_from(template, fields[4])[3]
    return _Section(index, list(fields), alignment)


def _find(template: bytes, placeholder: bytes = PLACEHOLDER) -> tuple[list[_Section], _Section | None]:
    try:
        table = elf.table(template)
        sections = [_section(i, template, fields) for i, fields in enumerate(table.sections)]
        names = template[sections[table.names].offset :][: sections[table.names].size]
    except (struct.error, IndexError, OverflowError, ValueError) as error:
        raise UnknownObject(str(error)) from error
    if table.kind != _RELOCATABLE:
        raise UnknownObject("not a relocatable object")
    found = [s for s in sections if names[s.fields[0] : names.find(b"\0", s.fields[0])] in SECTIONS]
    if not found:
        if placeholder in template:
            raise UnknownObject("the placeholder lies outside its section")
        return sections, None
    if len(found) > 1 or template.count(placeholder) != 1:
        raise UnknownObject("the placeholder does not occur exactly once")
    if not template.startswith(placeholder, found[0].offset):
        raise UnknownObject("its section does not begin with the placeholder")
    return sections, found[0]


def renamed(content: bytes, old: bytes, new: bytes) -> bytes | None:
    """The object with `new` for `old` in the names of its symbols; None if that is not all that would differ, if it
    stands in a name that clang does not make, or if the object is not laid out as this module knows it."""
    try:
        table = _StringTable(content)
        # The same way must lead to the object that there is.
        if len(old) != len(new) or table.with_names(b"", b"") != content:
            return None
        clangs = re.compile(rb"(?:\.[\w.]+\.)?(?:__hip_\w*_|\w+(?:\.static\.|__static__))%b" % re.escape(old))
        if not all(map(clangs.fullmatch, table.names(old))):
            return None
        made = table.with_names(old, new)
    except (struct.error, IndexError, ValueError):
        return None
    return made if made is not None and old not in made else None


class _StringTable:
    """The names in an object. Raises ValueError, struct.error, IndexError."""

    def __init__(self, content: bytes) -> None:
        table = elf.table(content)
        if table.kind != _RELOCATABLE:
            raise ValueError("not a relocatable object")
        self._content = content
        places = [table.start + number * elf.SECTION.size for number in range(len(table.sections))]
        _, _, _, _, self._offset, self._size, *_ = table.sections[table.names]
        for fields in table.sections:
            if fields[1] == _SYMBOLS:
                if fields[6] != table.names:
                    raise ValueError("names of symbols and of sections are apart")
                places += range(fields[4], fields[4] + fields[5], elf.SYMBOL.size)
        self._places = {place: name for place in places if (name := self._name(place))}

    def _name(self, place: int) -> bytes:
        """That which the word there points to."""
        (at,) = struct.unpack_from("<I", self._content, place)
        begin = self._offset + at
        return self._content[begin : self._content.index(b"\0", begin)] if at else b""

    def names(self, part: bytes) -> set[bytes]:
        return {name for name in self._places.values() if part in name}

    def with_names(self, old: bytes, new: bytes) -> bytes | None:
        names = {place: name.replace(old, new) if old else name for place, name in self._places.items()}
        offsets: dict[bytes, int] = {}
        text = b"\0"
        before = b""
        for name in sorted(set(names.values()), key=_from_end):
            if before.endswith(name):
                offsets[name] = len(text) - len(name) - 1
                continue
            offsets[name] = len(text)
            text += name + b"\0"
            before = name
        if len(text) != self._size:
            return None
        out = bytearray(self._content)
        out[self._offset : self._offset + self._size] = text
        for place, name in names.items():
            struct.pack_into("<I", out, place, offsets[name])
        return bytes(out)


def _from_end(name: bytes) -> list[int]:
    """The last bytes first, the highest one first, the end of a name behind all bytes."""
    return [-byte for byte in reversed(name)] + [1]
