"""Change times: which statuses can stand for a content at all, and what changed since a process began.

The kernel sets the change time of a file, and no program can set it back: so a file of the same status has the same
content, if it was old enough. squashfs, erofs, FAT, images of CDs and some of FUSE have no such time and show the
modification time twice, in whole seconds: there, another file may have the same status in every digit (two images with
clamped times). An overlay shows the times of the layer below, so the kind of the file system does not tell that alone.
But a local one that keeps change times is believed, whoever wrote it: `mkfs` may fill it with such files.
"""

from __future__ import annotations

import os
import select
import stat
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from hipcache.base import native

# `look_keeps_times` in native/direct/state.c has the same.
KEEP_TIMES = {"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "f2fs", "zfs", "bcachefs"}
_MOUNTS = "/proc/self/mountinfo"
_SECOND = 1_000_000_000
# Seconds. Hundreds of files are asked about in a row.
_ASK_AGAIN = 0.001


def keeps_change_time(device: int, modified: int, changed: int) -> bool:
    """Has a file on that device, with these times (nanoseconds), a change time of its own? Else its status never stands
    for its content, as if it had always just changed. `native/direct/state.c` has the same rule."""
    return modified != changed or changed % _SECOND != 0 or keeps_times(device, kinds())


def keeps_times(device: int, kinds: Mapping[str, str]) -> bool:
    """`kinds`: see `file_systems`."""
    return kinds.get(f"{os.major(device)}:{os.minor(device)}") in KEEP_TIMES


def kinds() -> Mapping[str, str]:
    """Of the file systems that are mounted now, by device."""
    return _mounted.kinds()


def file_systems(mounts: str = _MOUNTS) -> Mapping[str, str]:
    """The kind of each mounted file system by its device. `mounts`: a list of them, as mountinfo in proc(5). (A
    subvolume of btrfs has a device of its own, which is not listed: there each name is looked for.)"""
    try:
        with open(mounts, "rb") as file:
            return dict(_kinds(file))
    except OSError:
        return {}


def _kinds(lines: Iterable[bytes]) -> Iterable[tuple[str, str]]:
    for line in lines:
        before, _, after = line.decode(errors="replace").partition(" - ")
        yield before.split()[2], after.split()[0]


class _Mounted(threading.local):
    """What is mounted now, read again after each change (proc(5): poll). Each thread and process has its own: of those
    that share an open file, one alone is told of a change."""

    def __init__(self) -> None:
        self._process = -1
        self._asked = 0.0
        self._known: Mapping[str, str] = {}

    def kinds(self) -> Mapping[str, str]:
        if self._process != os.getpid():
            try:
                self._file = open(_MOUNTS, "rb")  # noqa: SIM115
            except OSError:
                return {}
            self._changes = select.poll()
            self._changes.register(self._file, select.POLLPRI)
            self._process, self._known = os.getpid(), {}
        now = time.monotonic()
        if now - self._asked > _ASK_AGAIN or not self._known:
            self._asked = now
            if self._changes.poll(0) or not self._known:
                self._known = file_systems()
        return self._known


_mounted = _Mounted()


# Nobody can set a change time back, so it tells: of a file that was written, and of a link or a directory that came to
# its place, behind which other, older files may be.

# The kernel stamps files with a clock that ticks every 1 to 10 ms: a change within this time before a
# process began cannot be told from one during it.
TICK = 0.02
# Seconds between looks at a directory whose times are perhaps just being set.
_LOOK_AGAIN = (0.0005, 0.002, 0.01)


def change_limit(started: float) -> float:
    """Of change times, in nanoseconds: those from there on may be of changes since `started` (wall clock, seconds)."""
    return (started - TICK) * 1e9


def why_changed(path: str, dated: int) -> str:
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
    parts = ways = set(paths)
    while ways:
        more = set[str]()
        looked = [*ways]
        for path, found in zip(looked, native.statuses(looked, links=True), strict=True):
            try:
                if not found or (latest(found.status[4]) >= began and came_since(began, partial(os.lstat, path))):
                    return path
                directory = path.rpartition("/")[0]
                more.add(directory)
                if stat.S_ISLNK(found.mode):
                    more.add(os.path.join(directory + "/", os.readlink(path)))
            except OSError:
                return path
        ways = more - parts - {""}
        parts |= ways
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
