"""Guards: directories whose status stands for all that was looked for in vain in them.

While a directory is as it was, no name has come into it. So one `stat` of it answers for every name that was missed
there: for most of what a compile looks for. Where a directory has changed (in one's own sources it does all the time),
each name is looked for. git trusts directories in the same way (its untracked cache), and as there it is not done on
file systems of which it is not known that they keep the times of directories. An overlay does not: its directory has
the status of one layer's, and another layer may have gained a name when it is mounted anew.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hipcache.disk import times
from hipcache.disk.times import keeps_times
from hipcache.inputs.keys import digest_bytes
from hipcache.inputs.watched import ABSENT, ENTRIES, FILE, GONE, Watched, status_text

GUARD = "d"
DIGITS = 32


def guard(watched: Sequence[Watched], old: float, kinds: Mapping[str, str]) -> tuple[Watched, ...]:
    """The same paths in an order in which each guard (path: DIGITS hexadecimal digits of the digest of its status, and
    the directory) stands before what it answers for. `old`: as for `watched.states`, which must be taken afterwards:
    a name that comes before that is found there, and one that comes later changes its directory. `kinds`: see below."""
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


def kinds() -> Mapping[str, str]:
    """Of the file systems that are mounted now."""
    return times.kinds()


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
        return digest_bytes(status_text(found))[:DIGITS] + directory


def _is_missing(path: str) -> bool:
    try:
        os.lstat(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False
