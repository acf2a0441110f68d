"""The records of ELF-64, little-endian (System V ABI, chapters 4 and 5), as all who read or write objects name them.

A compressed section (`-gz`) has SHF_COMPRESSED, and begins with Elf64_Chdr, which a stream of zlib follows.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

IDENT = b"\x7fELF\x02\x01"
# e_ident type machine version entry phoff shoff flags ehsize phentsize phnum shentsize shnum shstrndx
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
# sh_name type flags addr offset size link info addralign entsize
SECTION = struct.Struct("<IIQQQQIIQQ")
COMPRESSION = struct.Struct("<IIQQ")  # ch_type, reserved, ch_size, ch_addralign
SYMBOL = struct.Struct("<IBBHQQ")  # st_name, st_info, st_other, st_shndx, st_value, st_size
# Of a section whose content is compressed.
SHF_COMPRESSED = 0x800
_ZLIB = 1
_AT_ONCE = 1 << 20  # bytes of unpacked text


def may_hold(content: bytes, wanted: bytes) -> bool:
    """May `wanted` be in a compressed section of the object? It may, where one cannot be read, as of zstd. False for
    what is no object."""
    if not content.startswith(IDENT):
        return False
    try:
        return any(_holds(content[start : start + size], wanted) for start, size in _compressed(content))
    except (struct.error, zlib.error, ValueError):
        return True


def _compressed(content: bytes) -> Iterator[tuple[int, int]]:
    """(start, size) of each compressed section."""
    header = HEADER.unpack_from(content)
    start, size, count = header[6], header[11], header[12]
    if start and not count:
        count = SECTION.unpack_from(content, start)[5]  # more than 65,279 of them: in the first one's sh_size
    for number in range(count):
        section = SECTION.unpack_from(content, start + number * size)
        if section[2] & SHF_COMPRESSED:
            yield section[4], section[5]


def _holds(section: bytes, wanted: bytes) -> bool:
    """Raises ValueError, zlib.error if the section cannot be read."""
    kind, _, size, _ = COMPRESSION.unpack_from(section)
    if kind != _ZLIB:
        raise ValueError("not zlib's")
    unpacker = zlib.decompressobj()
    rest, tail, seen = section[COMPRESSION.size :], b"", 0
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
