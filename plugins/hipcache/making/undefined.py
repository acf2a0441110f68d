"""The functions that an object needs from elsewhere.

Formats: ELF-64 little-endian, relocatable (System V ABI, chapter 4); names of C++ (Itanium C++ ABI, 5.1.2).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from hipcache.inputs import elf
from hipcache.patterns import pattern
from hipcache.values import dataclass

_SYMBOLS = 2  # SHT_SYMTAB
_LENGTH = pattern(rb"\d+")


@dataclass(frozen=True)
class Functions:
    """Names of functions, as a source writes them. `in_c`: those that may be declared `extern "C"`."""

    names: frozenset[bytes] = frozenset()
    in_c: frozenset[bytes] = frozenset()

    def are_needed(self, content: bytes) -> bool:
        """May the object need one of them? (True if it cannot be read.)"""
        try:
            return bool(self.names or self.in_c) and any(map(self._is_named, _undefined(content)))
        except (struct.error, IndexError, ValueError):
            return True

    def _is_named(self, symbol: bytes) -> bool:
        if not symbol.startswith(b"_Z"):
            return symbol in self.in_c
        return any(name in self.names for name in _identifiers(symbol))


def _undefined(content: bytes) -> Iterator[bytes]:
    header = elf.HEADER.unpack_from(content)
    start, count = header[6], header[12]
    sections = [elf.SECTION.unpack_from(content, start + number * elf.SECTION.size) for number in range(count)]
    for section in sections:
        if section[1] == _SYMBOLS:
            strings = sections[section[6]][4]
            for at in range(section[4] + elf.SYMBOL.size, section[4] + section[5], elf.SYMBOL.size):
                name, _, _, index, _, _ = elf.SYMBOL.unpack_from(content, at)
                if not index:
                    begin = strings + name
                    yield content[begin : content.index(b"\0", begin)]


def _identifiers(symbol: bytes) -> Iterator[bytes]:
    """Those in a mangled name, each behind its length, and some parts of them."""
    for length in _LENGTH.finditer(symbol):
        yield symbol[length.end() : length.end() + int(length.group())]
