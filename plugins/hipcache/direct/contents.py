"""Contents: all that a compile depended on, known by what it is and not by the numbers that the file system gives it.

A fresh clone, an unpacked store and a container have the same files with other inodes, times and owners. There the
state of a record differs (`direct/record.py`), and the native program compares this instead (`native/contents.c`). The
engine does the same when it checks a trace (`inputs/trace.py`); but contents are compared plainly here: after an edit
of a comment the engine decides.

Format, for each path of a list in its order (numbers as 8 bytes, little-endian). *type* is the mode of `stat` without
permissions, but for who may execute a regular file:

    FILE     f   type, size, BLAKE3 of the content: 48 bytes. A directory that was listed: type, 0, as ENTRIES. A
                 character device: type, its number, 32 zeros
    MODE     m   type
    SAME     i   the number of the first such path in the list that has its device and inode: clang takes two names of
                 one file (or one directory of headers) for one
    NUMBER   o   device, inode
    LINK     l   type (lstat), length of the text of the link, that text
    ENTRIES  e   as in the state
    PROCESSOR  p  the same
    GONE, ABSENT, guards: nothing

Which content a status stood for is known from the compile, for files of any age. The content of other files is read
here, which is the one that was read before only if they are old.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Mapping, Sequence

from hipcache.direct.record import each_once
from hipcache.inputs.keys import digest_file
from hipcache.inputs.readset import Status, status_of
from hipcache.inputs.watched import (
    ABSENT,
    ENTRIES,
    FILE,
    GONE,
    LINK,
    MODE,
    NUMBER,
    PROCESSOR,
    SAME,
    Watched,
    entries_digest,
)
from hipcache.processes import LIST, observe

_EXECUTABLE = 0o111


class ContentsUnknown(Exception):
    """Something is of another kind, has changed, or is too young; only speed is lost."""


def type_of(mode: int) -> int:
    return stat.S_IFMT(mode) | (mode & _EXECUTABLE if stat.S_ISREG(mode) else 0)


def known_contents(
    watched: Sequence[Watched], found: Mapping[tuple[str, str], bytes], digests: Mapping[Status, str], old: float
) -> tuple[bytes, str]:
    """The contents, and why they are not known: one of the two is empty, or both where nothing is watched. `found`:
    what `watched.states` gave for them just now; `digests`: of contents, by the status that their file had; `old`:
    seconds of the epoch, what changed after that is too young to be read here."""
    parts: list[bytes] = []
    places: dict[bytes, int] = {}
    try:
        for entry in each_once(watched):
            state = found.get((entry.kind, entry.path), b"")
            if entry.kind == SAME:
                parts.append(struct.pack("<Q", places.setdefault(state, len(places))))
            elif entry.kind == FILE:
                parts.append(_file(entry.path, entry.known, state, digests, old))
            elif entry.kind == MODE:
                parts.append(struct.pack("<Q", type_of(*struct.unpack("<Q", state))))
            elif entry.kind == LINK:
                parts.append(struct.pack("<Q", type_of(struct.unpack_from("<Q", state)[0])) + state[8:])
            elif entry.kind in (ENTRIES, NUMBER, PROCESSOR):
                parts.append(state)
            elif entry.kind in (GONE, ABSENT):
                continue
    except (OSError, struct.error, ContentsUnknown) as unknown:
        return b"", str(unknown)
    return b"".join(parts), ""


def _file(path: str, listed: object, state: bytes, digests: Mapping[Status, str], old: float) -> bytes:
    """`listed`: of a directory, see `Watched`."""
    device, inode, mode, size, modified, changed = struct.unpack("<QQQQqq", state)
    status: Status = (device, inode, size, modified, changed)
    kind = type_of(mode)
    if stat.S_ISDIR(mode):
        entries = entries_digest(path)
        if status_of(os.stat(path)) != status or (isinstance(listed, str) and observe.sign(LIST, path) != listed):
            raise ContentsUnknown(f"'{path}' changed while hipcache listed it")
        return struct.pack("<QQ", kind, 0) + entries
    if stat.S_ISCHR(mode):
        return struct.pack("<QQ", kind, os.stat(path).st_rdev) + bytes(32)
    if not stat.S_ISREG(mode):
        raise ContentsUnknown(f"'{path}' is not a file")
    digest = digests.get(status)
    if digest is None:
        if max(modified, changed) >= old * 1e9:
            raise ContentsUnknown(f"'{path}' was changed too recently")
        digest = digest_file(path)
        if status_of(os.stat(path)) != status:
            raise ContentsUnknown(f"'{path}' changed while hipcache read it")
    return struct.pack("<QQ", kind, size) + bytes.fromhex(digest)
