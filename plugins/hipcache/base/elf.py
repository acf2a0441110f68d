"""The records of ELF-64, little-endian (System V ABI, chapters 4 and 5), as all who read or write objects name them.

A compressed section (`-gz`) has SHF_COMPRESSED, and begins with Elf64_Chdr, which a stream of zlib follows.
"""

from __future__ import annotations

import struct
import zlib

from hipcache.base.values import dataclass

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
_XINDEX = 0xFFFF
_AT_ONCE = 1 << 20  # bytes of unpacked text


@dataclass(frozen=True)
class SectionTable:
    """The sections of an object, each with the fields of its header (`SECTION`). `kind`: e_type; `start`: where the
    headers begin; `names`: the number of the section with the sections' names."""

    kind: int
    start: int
    names: int
    sections: list[tuple[int, ...]]


def table(content: bytes) -> SectionTable:
    """Raises ValueError for what is no whole object with sections."""
    try:
        header = HEADER.unpack_from(content)
        start, size, count, names = header[6], header[11], header[12], header[13]
        if not header[0].startswith(IDENT) or not start or size != SECTION.size:
            raise ValueError("not an ELF-64 object")
        # More than 65,279 sections: their number is in the first one's sh_size, that of the names in its sh_link.
        first = SECTION.unpack_from(content, start)
        places = range(start, min(start + (count or first[5]) * size, len(content) + size), size)
        sections = [SECTION.unpack_from(content, at) for at in places]
    except (struct.error, OverflowError) as error:
        raise ValueError(str(error)) from error
    return SectionTable(header[1], start, first[6] if names == _XINDEX else names, sections)


def may_hold(content: bytes, wanted: bytes) -> bool:
    """May `wanted` be in a compressed section of the object? It may, where one cannot be read, as of zstd. False for
    what is no object."""
    if not content.startswith(IDENT) or not HEADER.unpack_from(content.ljust(HEADER.size))[6]:
        return False
    try:
        compressed = (fields for fields in table(content).sections if fields[2] & SHF_COMPRESSED)
        return any(_holds(content[fields[4] : fields[4] + fields[5]], wanted) for fields in compressed)
    except (struct.error, zlib.error, ValueError):
        return True


def _holds(section: bytes, wanted: bytes) -> bool:
    """Raises ValueError, struct.error, zlib.error if the section cannot be read."""
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
