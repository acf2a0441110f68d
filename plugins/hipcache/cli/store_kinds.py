"""The bytes of a store by what they are for, as `hipcache stats --kinds` shows them. All entries are looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from hipcache.patterns import pattern
from hipcache.store.layout import ACTIONS, BLOBS, charge, digests
from hipcache.store.local import LocalStore
from hipcache.store.packs import CODE, is_code

# An ELF file for EM_AMDGPU, and the target in its metadata.
_MACHINE_AT, _AMDGPU = 18, b"\xe0\x00"
_TARGET = pattern(rb"amdgcn-amd-amdhsa-[a-z0-9]*-(gfx[0-9a-z-]+(?::[a-z]+[+-])*)")


class Kinds(NamedTuple):
    """Bytes on disk. `code`: objects and device code, of which `archs` tells the part of each architecture (an object
    has the code of all in it, and is compressed together with them); `records`: by which these are found; `other`:
    history, memos, statistics, what is worked on, and the unused ends of blocks."""

    code: int
    archs: Mapping[str, int]
    records: int
    other: int


def kinds(store: LocalStore) -> Kinds:
    """`store`: read-only, so that no use is noted. Raises StoreError."""
    code = records = 0
    archs = Counter[str]()
    for table in store.tables():
        stored = {frame.number: frame.stored for frame in table.frames}
        code += stored.get(CODE, 0)
        records += sum(stored.values()) - stored.get(CODE, 0)
        sizes = Counter[str]()
        for name, place in table.entries.items():
            if place.frame.number == CODE:
                sizes[_arch(store, name)] += place.size
        whole = sum(sizes[arch] for arch in sizes if arch)
        archs.update({arch: stored[CODE] * size // whole for arch, size in sizes.items() if arch})
    records += sum(charge(name, status.st_size) for name, status in digests(store.confined, ACTIONS))
    for digest, status in digests(store.confined, BLOBS):
        size = charge(digest, status.st_size)
        if is_code(store.get_blob(digest) or b""):
            code += size
            archs[_arch(store, digest)] += size
        else:
            records += size
    del archs[""]
    return Kinds(code, archs, records, max(0, store.size(beside=True).bytes - code - records))


def _arch(store: LocalStore, name: str) -> str:
    """The architecture of a code object, empty for all else."""
    content = store.get_blob(name.rpartition("/")[2]) or b""
    found = _TARGET.search(content) if content[_MACHINE_AT : _MACHINE_AT + 2] == _AMDGPU else None
    return found[1].decode("ascii") if found else ""
