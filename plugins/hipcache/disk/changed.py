"""What changed since a process began: such a path may be another one than the process saw.

Nobody can set a change time back, so it tells: of a file that was written, and of a link or a directory that came to
its place, behind which other, older files may be.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable
from functools import partial

# The kernel stamps files with a clock that ticks every 1 to 10 ms: a change within this time before a
# process began cannot be told from one during it.
TICK = 0.02
# Seconds between looks at a directory whose times are perhaps just being set.
_LOOK_AGAIN = (0.0005, 0.002, 0.01)
_SECOND = 1_000_000_000


def limit(started: float) -> float:
    """Of change times, in nanoseconds: those from there on may be of changes since `started` (wall clock, seconds)."""
    return (started - TICK) * 1e9


def why(path: str, dated: int) -> str:
    """In words why a path that is `dated` so (nanoseconds), behind the `limit`, may be another one by now."""
    if dated > time.time_ns() + TICK * 1e9:
        return f"'{path}' is newer than the clock (one that was set back, or libfaketime's)"
    return f"'{path}' changed while the compiler ran or just before"


def latest(dated: int) -> int:
    """The latest time of a change that is `dated` so (nanoseconds). Some file systems have whole seconds (ext4 with
    inodes of 128 bytes, ext3, Lustre, OpenAFS); with finer times a whole second practically never comes."""
    return dated if dated % _SECOND else dated + _SECOND


def moved(paths: Iterable[str], began: float) -> str:
    """A link or a directory on the way to one of `paths` that came there since `began`; empty if there is none.

    The files below a directory keep their times when it is renamed. Its own change time tells, and differs from its
    modification time unless an entry was made in it since. Known weakness: both, within one compile.
    """
    parts = set(paths)
    ways = [*parts]
    while ways:
        path = ways.pop()
        try:
            found = os.lstat(path)
            if latest(found.st_ctime_ns) >= began and came_since(began, partial(os.lstat, path)):
                return path
            directory = path.rpartition("/")[0]
            more = [directory]
            if stat.S_ISLNK(found.st_mode):
                more.append(os.path.join(directory + "/", os.readlink(path)))
        except OSError:
            return path
        for part in more:
            if part and part not in parts:
                parts.add(part)
                ways.append(part)
    return ""


def came_since(began: float, status: Callable[[], os.stat_result]) -> bool:
    """Did the link or directory whose `status` that is come to its place since `began` (nanoseconds)? Raises OSError.

    Where an entry is made in a directory, Linux sets both times one after the other, and a look between the two (for
    some 50 us, measured on ext4) shows a directory that seems to have been renamed. So it is looked at again.
    """
    for pause in (*_LOOK_AGAIN, 0.0):
        found = status()
        if latest(found.st_ctime_ns) < began:
            return False
        if stat.S_ISLNK(found.st_mode):
            return True
        if not stat.S_ISDIR(found.st_mode) or found.st_mtime_ns >= found.st_ctime_ns:
            return False
        time.sleep(pause)
    return True
