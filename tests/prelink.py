"""Shared libraries with an address of their own, and their relocations done, as by prelink(8)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

# elf(5), and the psABI of x86-64 for the relocations.
_PT_LOAD, _PT_DYNAMIC, _SHT_DYNSYM, _SHF_ALLOC, _STT_TLS, _SHN_UNDEF, _SHN_ABS = 1, 2, 11, 2, 6, 0, 0xFFF1
_STT_PLAIN, _STB_UNIQUE = (1, 2), 10
_RELATIVE, _JUMP_SLOT, _ADDRESS, _ADDRESS_ALONE = 8, 7, 1, 6
# By symbol, and those of variables of threads: what the loader writes does not depend on what was there.
_BY_SYMBOL = (_ADDRESS, _ADDRESS_ALONE, 16, 17, 18)
_PLTRELSZ, _PLTGOT, _RELA, _RELASZ, _TEXTREL, _JMPREL, _RELACOUNT = 2, 3, 7, 8, 22, 23, 0x6FFFFFF9
# The tags of the dynamic section that hold addresses: those, HASH, STRTAB, SYMTAB, INIT, FINI, INIT_ARRAY, FINI_ARRAY,
# GNU_HASH, VERSYM, VERDEF and VERNEED.
_ADDRESSES = (_PLTGOT, _RELA, _JMPREL, 4, 5, 6, 12, 13, 25, 26, 0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFE)


@dataclass(frozen=True)
class Symbol:
    """Of the dynamic table. `address`: None where the library only asks for it, or where it is no plain object or
    function."""

    number: int
    name: bytes
    defined: bool
    address: int | None


def symbols(library: bytes) -> Iterator[Symbol]:
    """Those that a program or library shows to others, or asks for."""
    begin, size, count = *struct.unpack_from("<40xQ", library), *struct.unpack_from("<58xHH", library)
    sections = [struct.unpack_from("<4xI16xQQI", library, at) for at in range(begin, begin + count * size, size)]
    for kind, offset, length, strings in sections:
        for number, at in enumerate(range(offset, offset + length, 24) if kind == _SHT_DYNSYM else ()):
            name, info, section, value = struct.unpack_from("<IBxHQ", library, at)
            text = sections[strings][1] + name
            usual = section not in (_SHN_UNDEF, _SHN_ABS) and info >> 4 != _STB_UNIQUE and info & 15 in _STT_PLAIN
            spelled = library[text : library.index(b"\0", text)]
            yield Symbol(number, spelled, section != _SHN_UNDEF, value if usual else None)


@dataclass(frozen=True)
class _Moved:
    """A library on its way to `base`. `parts`: what of the file is loaded where, as (address, offset, size)."""

    library: bytes
    made: bytearray
    base: int
    parts: list[tuple[int, int, int]] = field(default_factory=list)

    def offset_of(self, address: int) -> int:
        for begin, offset, size in reversed(self.parts):
            if begin <= address < begin + size:
                return address - begin + offset
        raise ValueError(f"nothing in the file is loaded at {address:#x}")

    def move(self, offset: int) -> None:
        """The address that is there."""
        self.put(offset, struct.unpack_from("<Q", self.made, offset)[0] + self.base)

    def put(self, offset: int, value: int) -> None:
        struct.pack_into("<Q", self.made, offset, value)

    def headers(self) -> range:
        """Moves what the program headers say. Returns where the tags of the dynamic section are."""
        begin, size, count = *struct.unpack_from("<32xQ", self.library), *struct.unpack_from("<54xHH", self.library)
        dynamic = range(0)
        for at in range(begin, begin + count * size, size):
            kind, offset, address, filled, in_memory = struct.unpack_from("<I4xQQ8xQQ", self.library, at)
            if kind == _PT_LOAD:
                self.parts.append((address, offset, filled))
            elif kind == _PT_DYNAMIC:
                dynamic = range(offset, offset + filled, 16)
            if in_memory:
                self.move(at + 16)
                self.move(at + 24)
        return dynamic

    def sections(self) -> None:
        """Moves the sections and the symbols."""
        begin, size, count = *struct.unpack_from("<40xQ", self.library), *struct.unpack_from("<58xHH", self.library)
        for at in range(begin, begin + count * size, size):
            kind, flags, offset, length = struct.unpack_from("<4xIQ8xQQ", self.library, at)
            if flags & _SHF_ALLOC:
                self.move(at + 16)
            for symbol in range(offset, offset + length, 24) if kind == _SHT_DYNSYM else ():
                info, section = struct.unpack_from("<4xBxH", self.library, symbol)
                if section not in (_SHN_UNDEF, _SHN_ABS) and info & 15 != _STT_TLS:
                    self.move(symbol + 8)

    def relative(self, begin: int, size: int) -> None:
        """Does these relocations."""
        for address, info, addend in struct.iter_unpack("<QQq", self.library[begin : begin + size]):
            if info != _RELATIVE:
                raise ValueError("another relocation among the relative ones")
            self.put(self.offset_of(address), addend + self.base)

    def others(self, begin: int, size: int) -> None:
        """Moves these relocations, which the loader does."""
        for at in range(begin, begin + size, 24):
            address, kind = struct.unpack_from("<QI", self.library, at)
            if kind == _JUMP_SLOT:
                self.move(self.offset_of(address))  # the way to the loader, until the function is called first
            elif kind not in _BY_SYMBOL:
                raise ValueError(f"a relocation of the kind {kind}")
            self.move(at)

    def bind(self, begin: int, size: int, known: Mapping[bytes, int]) -> int:
        """Does those of `others` whose symbols are `known`, and closes the gaps. Returns the size of what is left."""
        addresses = {one.number: known[one.name] for one in symbols(self.library) if one.name in known}
        left = bytearray()
        for at in range(begin, begin + size, 24):
            place, kind, symbol, addend = struct.unpack_from("<QIIq", self.made, at)
            if symbol in addresses and kind in (_ADDRESS, _ADDRESS_ALONE):
                self.put(self.offset_of(place - self.base), addresses[symbol] + (addend if kind == _ADDRESS else 0))
            else:
                left += self.made[at : at + 24]
        self.made[begin : begin + len(left)] = left
        return len(left)


def prelink(library: bytes, base: int, known: Mapping[bytes, int] | None = None) -> bytearray:
    """A shared library of x86-64 as it is at `base`. `known`: what symbols are at, however they are bound. Errors:
    ValueError, KeyError, struct.error: it has something that is not foreseen."""
    moved = _Moved(library, bytearray(library), base)
    if library[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<HH", library, 16) != (3, 62):
        raise ValueError("no shared library of x86-64")
    tags: dict[int, tuple[int, int]] = {}
    for at in moved.headers():
        tag, value = struct.unpack_from("<QQ", library, at)
        tags.setdefault(tag, (value, at + 8))
        if tag in _ADDRESSES:
            moved.move(at + 8)
        if tag == 0:
            break
    if _TEXTREL in tags:
        raise ValueError("relocations of code")
    moved.sections()
    begin, done, size = moved.offset_of(tags[_RELA][0]), 24 * tags[_RELACOUNT][0], tags[_RELASZ][0]
    moved.relative(begin, done)
    moved.others(begin + done, size - done)
    left = moved.bind(begin + done, size - done, known or {})
    if _JMPREL in tags:
        moved.others(moved.offset_of(tags[_JMPREL][0]), tags[_PLTRELSZ][0])
    if _PLTGOT in tags:
        moved.move(moved.offset_of(tags[_PLTGOT][0]))
    moved.put(tags[_RELA][1], tags[_RELA][0] + base + done)
    moved.put(tags[_RELASZ][1], left)
    moved.put(tags[_RELACOUNT][1], 0)
    return moved.made
