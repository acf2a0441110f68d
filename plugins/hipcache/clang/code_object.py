"""The CUID in a device's code object, changed as lld would have linked it.

It stands in the name of one symbol (`bitcode.names_in_object`). Another name of the same length moves nothing, but the
tables by which the loader finds names are made of hashes of them (lld/ELF/SyntheticSections.cpp):

    .dynsym     its hashed symbols are sorted by bucket, those of one bucket by the place of their names
                (`GnuHashTableSection`)
    .gnu.hash   nbuckets, the first hashed symbol, words of the Bloom filter, its shift; the filter; for each bucket its
                first symbol; for each symbol its hash, with the last bit set at the end of a bucket
    .hash       as many buckets as symbols, and chains, in which a later symbol comes first (`HashTableSection`)

Not changed are a code object with a note of the linker's (`--build-id`, a digest of all), and one that has the CUID
elsewhere, too.

Formats: ELF-64 little-endian, shared (System V ABI, chapter 5, "Hash Table"; for DT_GNU_HASH glibc's
elf/dl-lookup.c).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from hipcache.base import elf

_SHARED = 3  # ET_DYN
# SHT_*
_STRINGS, _RELA, _HASH, _NOTE, _NOBITS, _REL, _DYNAMIC_SYMBOLS, _GNU_HASH = 3, 4, 5, 7, 8, 9, 11, 0x6FFFFFF6
_VERSIONS = frozenset(range(0x6FFFFFFD, 0x70000000))  # SHT_GNU_verdef, verneed, versym: of each symbol by its number
_RELOCATIONS = {_RELA: 24, _REL: 16}  # bytes of each
_WORD = 0xFFFFFFFF


def renamed(content: bytes, old: bytes, new: bytes) -> bytes | None:
    """The code object with `new` for `old` in its names; None if lld might have laid it out in another way."""
    try:
        # The same way must lead to the code object that there is.
        if len(old) != len(new) or new in content or not _names(content, old) or _laid_out(content) != content:
            return None
        return _laid_out(content.replace(old, new))
    except (struct.error, IndexError, ValueError):
        return None


def _laid_out(content: bytes) -> bytes:
    """With the symbols in the order of their names' hashes, and the tables of these. Raises ValueError, struct.error,
    IndexError."""
    sections = _sections(content)
    kinds = [fields[1] for fields in sections]
    if not _VERSIONS.isdisjoint(kinds) or kinds.count(_DYNAMIC_SYMBOLS) != 1 or kinds.count(_GNU_HASH) != 1:
        raise ValueError("other tables of symbols than lld makes for a GPU")
    number = kinds.index(_DYNAMIC_SYMBOLS)
    _, _, _, _, start, size, text, *_ = sections[number]
    strings = sections[text][4]
    entries = [content[at : at + elf.SYMBOL.size] for at in range(start, start + size, elf.SYMBOL.size)]
    hashed, room = sections[kinds.index(_GNU_HASH)][4:6]
    buckets, first, words, shift = struct.unpack_from("<4I", content, hashed)
    if not buckets or not words or 16 + 8 * words + 4 * (buckets + len(entries) - first) != room:
        raise ValueError("a table of another size")

    def name(entry: bytes) -> bytes:
        begin = strings + int.from_bytes(entry[:4], "little")
        return content[begin : content.index(b"\0", begin)]

    def place(entry: bytes) -> tuple[int, int]:
        return _gnu_hash(name(entry)) % buckets, int.from_bytes(entry[:4], "little")

    ordered = entries[:first] + sorted(entries[first:], key=place)
    if ordered != entries and any(_numbers(content, sections, number)):
        raise ValueError("relocations refer to symbols by number")
    out = bytearray(content)
    out[start : start + size] = b"".join(ordered)
    names = [name(entry) for entry in ordered]
    table = _gnu_table(names, buckets, first, words, shift)
    out[hashed : hashed + len(table)] = table
    if _HASH in kinds:
        table = _hash_table(names)
        at = sections[kinds.index(_HASH)][4]
        out[at : at + len(table)] = table
    return bytes(out)


def _sections(content: bytes) -> list[tuple[int, ...]]:
    table = elf.table(content)
    if table.kind != _SHARED or table.start + len(table.sections) * elf.SECTION.size != len(content):
        raise ValueError("not a shared object, or one with something behind it")
    if any(fields[1] != _NOBITS and fields[4] + fields[5] > len(content) for fields in table.sections):
        raise ValueError("a section beyond the end")
    return table.sections


def _names(content: bytes, text: bytes) -> bool:
    """Does it stand in the name of clang's variable alone, and is no note the linker's own?"""
    sections = _sections(content)
    tables = [content[start : start + size] for _, kind, _, _, start, size, *_ in sections if kind == _STRINGS]
    variable = b"\0__hip_cuid_%b\0" % text
    notes = [content[start + 12 : start + 19] for _, kind, _, _, start, *_ in sections if kind == _NOTE]
    return content.count(text) == sum(table.count(variable) for table in tables) and set(notes) <= {b"AMDGPU\0"}


def _numbers(content: bytes, sections: list[tuple[int, ...]], symbols: int) -> Iterator[int]:
    """Of the symbols that relocations name."""
    for _, kind, _, _, start, size, link, *_ in sections:
        if kind in _RELOCATIONS and link == symbols:
            for at in range(start, start + size, _RELOCATIONS[kind]):
                yield struct.unpack_from("<I", content, at + 12)[0]


def _gnu_table(names: list[bytes], buckets: int, first: int, words: int, shift: int) -> bytes:
    hashes = [_gnu_hash(name) for name in names[first:]]
    bloom, starts, ends = [0] * words, [0] * buckets, []
    for number, value in enumerate(hashes):
        bloom[value // 64 % words] |= 1 << value % 64 | 1 << (value >> shift) % 64
        starts[value % buckets] = starts[value % buckets] or first + number
        is_last = number + 1 == len(hashes) or hashes[number + 1] % buckets != value % buckets
        ends.append(value & ~1 | is_last)
    parts = struct.pack(f"<{words}Q", *bloom), struct.pack(f"<{buckets + len(ends)}I", *starts, *ends)
    return struct.pack("<4I", buckets, first, words, shift) + b"".join(parts)


def _hash_table(names: list[bytes]) -> bytes:
    count = len(names)
    buckets, chains = [0] * count, [0] * count
    for number, name in enumerate(names[1:], 1):
        bucket = _elf_hash(name) % count
        chains[number], buckets[bucket] = buckets[bucket], number
    return struct.pack(f"<{2 + 2 * count}I", count, count, *buckets, *chains)


def _gnu_hash(name: bytes) -> int:
    value = 5381
    for byte in name:
        value = value * 33 + byte & _WORD
    return value


def _elf_hash(name: bytes) -> int:
    value = 0
    for byte in name:
        value = (value << 4) + byte & _WORD
        top = value & 0xF0000000
        value = (value ^ top >> 24) & ~top
    return value
