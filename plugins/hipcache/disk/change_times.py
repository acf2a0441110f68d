"""Change times: which statuses can stand for a content at all.

The kernel sets the change time of a file, and no program can set it back: so a file of the same status has the same
content, if it was old enough. squashfs, erofs, FAT, images of CDs and some of FUSE have no such time and show the
modification time twice, in whole seconds: there, another file may have the same status in every digit (two images with
clamped times). An overlay shows the times of the layer below, so the kind of the file system does not tell that alone.
But a local one that keeps change times is believed, whoever wrote it: `mkfs` may fill it with such files.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterable, Mapping

# `look_keeps_times` in native/state.c has the same.
KEEP_TIMES = {"ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs", "f2fs", "zfs", "bcachefs"}
_MOUNTS = "/proc/self/mountinfo"
_SECOND = 1_000_000_000


def keeps_change_time(device: int, modified: int, changed: int) -> bool:
    """Has a file on that device, with these times (nanoseconds), a change time of its own? Else its status never stands
    for its content, as if it had always just changed. `native/state.c` has the same rule."""
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
        if self._changes.poll(0) or not self._known:
            self._known = file_systems()
        return self._known


_mounted = _Mounted()
