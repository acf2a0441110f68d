"""Looks for bytes in an object's compressed sections (`-gz`), which a look at the object's own bytes would not find.

Formats: ELF-64 little-endian (System V ABI, chapter 4); a section with SHF_COMPRESSED begins with Elf64_Chdr, which
zlib's stream follows. Whatever cannot be read, zstd's streams among it, may hold anything.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from hipcache.inputs import elf

_ZLIB = 1
_AT_ONCE = 1 << 20  # bytes of unpacked text


def may_hold(content: bytes, wanted: bytes) -> bool:
    """May `wanted` be in a compressed section of the object? False for what is no object."""
    if not content.startswith(elf.IDENT):
        return False
    try:
        return any(_holds(content[start : start + size], wanted) for start, size in _compressed(content))
    except (struct.error, zlib.error, ValueError):
        return True


def _compressed(content: bytes) -> Iterator[tuple[int, int]]:
    """(start, size) of each compressed section."""
    header = elf.HEADER.unpack_from(content)
    start, size, count = header[6], header[11], header[12]
    if start and not count:
        count = elf.SECTION.unpack_from(content, start)[5]  # more than 65,279 of them: in the first one's sh_size
    for number in range(count):
        section = elf.SECTION.unpack_from(content, start + number * size)
        if section[2] & elf.SHF_COMPRESSED:
            yield section[4], section[5]


def _holds(section: bytes, wanted: bytes) -> bool:
    """Raises ValueError, zlib.error if the section cannot be read."""
    kind, _, size, _ = elf.COMPRESSION.unpack_from(section)
    if kind != _ZLIB:
        raise ValueError("not zlib's")
    unpacker = zlib.decompressobj()
    rest, tail, seen = section[elf.COMPRESSION.size :], b"", 0
    while not unpacker.eof:
        piece = unpacker.decompress(rest, _AT_ONCE)
        rest = unpacker.unconsumed_tail
        seen += len(piece)
        if wanted in tail + piece:
            return True
        if not piece and not rest:
            break
        tail = (tail + piece)[-len(wanted) :]
    if not unpacker.eof or seen != size:
        raise ValueError("cut short")
    return False
