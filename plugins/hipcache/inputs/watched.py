"""The paths that a whole compile depended on in the file system, and one digest for the state of all of them.

Each path is watched in the way in which it mattered: a file that was read by its whole status, a path that was looked
for in vain by its absence. The digest goes over what `stat` says of each, in order, so that "is all as it was?" is
one comparison. A status stands for the content only if it was old when it was taken (`file_manager.RACY`) and has a
change time (`base/times`). Even so it does not show what is written through a mapping of memory to a page that was
written before, until the kernel has put that page on disk (mmap(2): some 30 s on ext4). git knows files in the same
way, and by less.

What goes into the digest, for each path in order (numbers as 8 bytes, little-endian; times in nanoseconds):

    FILE   f   stat:  device, inode, mode, size, modification time, change time
    MODE   m   stat:  mode
    SAME   i   stat:  device, inode
    NUMBER o   the same, where the inode itself is in what was made (clang/units.py)
    LINK   l   lstat: mode, length of the text of the link, that text (length 0 for what is no link)
    PROCESSOR p  its digest (native/direct/processor.c); the path is the root
    ENTRIES e  BLAKE3 of the names in a directory, sorted, each followed by NUL
    GONE   n   stat fails: nothing      (also a link that leads nowhere)
    ABSENT a   lstat fails: nothing     (both: if it fails with another error than ENOENT and ENOTDIR, its number)

Names that are ABSENT in one directory stand together here, and one by one in the digest and in lists.

`native/direct/state.c` takes the same digest, in a fraction of a millisecond. A *guard* spares it most of what is GONE
or ABSENT: a directory whose status stands for all that was looked for in vain in it. While it is as it was, no name has
come into it. So one `stat` answers for every name that was missed there: for most of what a compile looks for. Where a
directory has changed (in one's own sources it does all the time), each name is looked for. git trusts directories in
the same way (its untracked cache), and as there it is not done on file systems of which it is not known that they keep
the times of directories. An overlay does not: its directory has the status of one layer's, and another layer may have
gained a name when it is mounted anew.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from hipcache.base import native
from hipcache.base.hashing import blake3
from hipcache.base.keys import digest_bytes
from hipcache.base.paths import MISSING
from hipcache.base.times import keeps_change_time, keeps_times
from hipcache.inputs.readset import status_of
from hipcache.processes import LINK as LOOKED_AT_LINK
from hipcache.processes import LIST, READ, observe
from hipcache.processes import PROCESSOR as LOOKED_AT_PROCESSOR
from hipcache.processes.observe import Observation

FILE, MODE, SAME, NUMBER, LINK, ENTRIES, GONE, ABSENT = "f", "m", "i", "o", "l", "e", "n", "a"
PROCESSOR = "p"
# A guard's kind. Its path: GUARD_DIGITS hexadecimal digits of the digest of its status, and the directory.
GUARD = "d"
GUARD_DIGITS = 32

DIRECTORY, NO_DIRECTORY = "a directory", "no directory"


class Watched(NamedTuple):
    """A path, how it is watched, and what is known of it: FILE: a status (device, inode, size, both times) or the
    digest of a directory's listing; ENTRIES: that digest; MODE: as `observe.sign`, or DIRECTORY or NO_DIRECTORY; SAME
    and NUMBER: (device, inode); LINK, PROCESSOR: as `observe.sign`; ABSENT: names, all of them below `path`, which then
    has a slash at its end; GUARD: nothing, the path tells it. None: whatever it is now."""

    kind: str
    path: str
    known: object = None

    @property
    def names(self) -> tuple[str, ...]:
        return self.known if self.kind == ABSENT and isinstance(self.known, tuple) else ()

    @property
    def paths(self) -> list[str]:
        return [self.path + name for name in self.names] or [self.path]


def of_observation(observation: Observation) -> Watched:
    if observation.how == LOOKED_AT_PROCESSOR:
        return Watched(PROCESSOR, observation.path, observation.sign)
    if not observation.sign:
        return Watched(ABSENT if observation.how == LOOKED_AT_LINK else GONE, observation.path)
    if observation.how == LOOKED_AT_LINK:
        return Watched(LINK, observation.path, observation.sign)
    if observation.how == LIST:
        return Watched(FILE, observation.path, observation.sign)
    if observation.how == READ and " " in observation.sign:
        return Watched(FILE, observation.path, tuple(int(number) for number in observation.sign.split()))
    return Watched(MODE, observation.path, observation.sign)


def merge(watched: Iterable[Watched]) -> tuple[Watched, ...]:
    """Each path once in each way, those of one directory together. What is known in more than one way stays so: all of
    it is checked."""
    names: dict[str, tuple[str, ...]] = {}
    others: dict[Watched, None] = {}
    for entry in watched:
        if not entry.names:
            others[entry] = None
        elif names.setdefault(entry.path, entry.names) != entry.names:
            names[entry.path] = tuple(sorted({*names[entry.path], *entry.names}))
    absent = (Watched(ABSENT, place, found) for place, found in names.items())
    return tuple(
        sorted((*others, *absent), key=lambda entry: (*entry.path.rpartition("/"), entry.kind, str(entry.known)))
    )


def states(watched: Iterable[Watched]) -> Mapping[tuple[str, str], bytes] | None:
    """The parts of the text that the digest is made of, by kind and path; None if a path is not in its known state."""
    parts: dict[tuple[str, str], bytes] = {}
    for entry in watched:
        found = _state_of(entry)
        if found is None:
            return None
        parts.setdefault((entry.kind, entry.path), found)
    return parts


def changed(watched: Iterable[Watched]) -> str:
    """The first path that is not in its known state; empty if all are."""
    return next((entry.path for entry in watched if _state_of(entry) is None), "")


def are_old(found: Mapping[tuple[str, str], bytes], old: float) -> bool:
    """Had all files changed for the last time before that (seconds of the epoch), as a change time tells, so that their
    status stands for their content? `found`: see `states`."""
    statuses = (struct.unpack_from("<QQQQqq", text) for (kind, _), text in found.items() if kind == FILE)
    return all(max(times) < old * 1e9 and keeps_change_time(device, *times) for device, _, _, _, *times in statuses)


def _state_of(entry: Watched) -> bytes | None:
    try:
        return _read_state(entry)
    except OSError:
        return None


def _read_state(entry: Watched) -> bytes | None:
    if entry.names:
        return None if native.not_missing(native.listed(entry.names, entry.path)) else b""
    try:
        found = os.lstat(entry.path) if entry.kind in (LINK, ABSENT) else os.stat(entry.path)
    except OSError as error:
        if entry.kind not in (GONE, ABSENT):
            return None
        return b"" if error.errno in MISSING else struct.pack("<Q", error.errno)
    mode, known = found.st_mode, entry.known
    if entry.kind == PROCESSOR:
        digest = native.processor()
        return digest if digest and known in (None, digest.hex()) else None
    if entry.kind == ENTRIES:
        return entries_digest(entry.path) if observe.sign(LIST, entry.path) == known else None
    if entry.kind == MODE:
        kinds = (oct(mode), DIRECTORY if stat.S_ISDIR(mode) else NO_DIRECTORY)
        return struct.pack("<Q", mode) if known is None or known in kinds else None
    if entry.kind in (SAME, NUMBER):
        identity = (found.st_dev, found.st_ino)
        return struct.pack("<QQ", *identity) if known in (None, identity) else None
    if entry.kind == LINK:
        text = os.fsencode(os.readlink(entry.path)) if stat.S_ISLNK(mode) else b""
        sign = os.fsdecode(text) if text else oct(mode)
        return struct.pack("<QQ", mode, len(text)) + text if known in (None, sign) else None
    if entry.kind != FILE:
        return None
    status = status_of(found)
    if stat.S_ISDIR(mode) and isinstance(known, str):
        # Listed after its status was taken: an entry that comes later changes that.
        known = status if observe.sign(LIST, entry.path) == known else ()
    if known not in (None, status):
        return None
    return status_text(found)


def entries_digest(directory: str) -> bytes:
    """The state of ENTRIES. Raises OSError."""
    names = sorted(os.listdir(os.fsencode(directory)))
    return blake3(b"".join(name + b"\0" for name in names)).digest()


def status_text(found: os.stat_result) -> bytes:
    """The state of FILE."""
    return struct.pack(
        "<QQQQqq",
        found.st_dev,
        found.st_ino,
        found.st_mode,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )


# Guards


def guard(watched: Sequence[Watched], old: float, kinds: Mapping[str, str]) -> tuple[Watched, ...]:
    """The same paths in an order in which each guard stands before what it answers for. `old`: as for `are_old`.
    `states` must be taken afterwards: a name that comes before that is found there, and one that comes later changes
    its directory. `kinds`: of the file systems that are mounted now."""
    directories = _Directories(old, kinds)
    groups: dict[str, list[Watched]] = {"": []}
    for entry in watched:
        if entry.kind in (GONE, ABSENT):
            groups.setdefault(directories.guard_of(entry), []).append(entry)
    ordered = [*(entry for entry in watched if entry.kind not in (GONE, ABSENT)), *groups.pop("")]
    for directory, names in groups.items():
        ordered += [Watched(GUARD, directory), *names]
    return tuple(ordered)


def unguarded(guarded: Iterable[Watched]) -> Iterator[Watched]:
    """Those of `guard` that still must be looked at: no name behind a guard has come since the guard was taken, or its
    directory has changed."""
    by_guard = False
    for entry in guarded:
        by_guard = entry.kind == GUARD or (by_guard and entry.kind in (GONE, ABSENT))
        if not by_guard:
            yield entry


def by_entries(watched: Iterable[Watched], kinds: Mapping[str, str]) -> tuple[Watched, ...]:
    """The same paths; directories that were listed are known by their entries where their status does not tell."""
    return tuple(entry._replace(kind=ENTRIES) if _is_untold(entry, kinds) else entry for entry in watched)


def _is_untold(entry: Watched, kinds: Mapping[str, str]) -> bool:
    if entry.kind != FILE or not isinstance(entry.known, str):
        return False
    try:
        return not keeps_times(os.stat(entry.path).st_dev, kinds)
    except OSError:
        return False


class _Directories:
    """Those of one compile: most have many names that were missed."""

    def __init__(self, old: float, kinds: Mapping[str, str]) -> None:
        self._old = old
        self._kinds = kinds
        self._found: dict[str, str | None] = {}

    def guard_of(self, entry: Watched) -> str:
        """The guard of what was missed, empty if it has none: the last directory on the way that is there, if what
        comes next on the way is not (a link that leads nowhere is). Names of one directory were missed in it when it
        was as it is."""
        if entry.names:
            return self._guard(entry.path.rstrip("/") or "/") or ""
        missing = entry.path
        while missing not in ("", "/"):
            directory = missing.rpartition("/")[0] or "/"
            guard = self._guard(directory)
            if guard is not None:
                return guard if guard and _is_missing(missing) else ""
            missing = directory
        return ""

    def _guard(self, directory: str) -> str | None:
        """The guard of a directory: None if there is no such directory, empty if it cannot have one."""
        if directory not in self._found:
            self._found[directory] = self._make(directory)
        return self._found[directory]

    def _make(self, directory: str) -> str | None:
        try:
            found = os.stat(directory)
        except OSError:
            return None
        if not stat.S_ISDIR(found.st_mode):
            return None
        if max(found.st_mtime, found.st_ctime) >= self._old or not keeps_times(found.st_dev, self._kinds):
            return ""
        return digest_bytes(status_text(found))[:GUARD_DIGITS] + directory


def _is_missing(path: str) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False
