"""Mounts that this process and its children see, and nobody else; they are gone when the last of these has ended.
Only root can make them."""

from __future__ import annotations

import ctypes
import os
import re
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path

_LIBC = ctypes.CDLL(None)
_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_SLAVE = 0x20000, 0x1000, 0x4000, 0x80000
_MNT_DETACH = 2
# Bytes of memory that are left free for all else.
_SPARED = 2 << 30


def memory(at: Path, size: int) -> bool:
    """Whether `size` bytes of memory could be had for a file system in `at`, with its mode."""
    options = f"mode={stat.S_IMODE(at.stat().st_mode):o},size={size}"
    return _begin() and _available() > size + _SPARED and _mount("tmpfs", at, "tmpfs", 0, options)


def bind(source: Path, target: Path) -> bool:
    """Whether `source` could be put in the place of `target`."""
    return _begin() and _mount(str(source), target, None, _MS_BIND)


def overlay(lower: Path, upper: Path, work: Path, target: Path) -> bool:
    """Whether `target` could become what lies in `lower`, which stays as it is; changes go to `upper`."""
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    return _begin() and _mount("overlay", target, "overlay", 0, options)


def detach(at: Path) -> None:
    """What is open there, or mounted from there, stays."""
    _LIBC.umount2(os.fsencode(at), _MNT_DETACH)


def listed(process: str = "self") -> list[list[str]]:
    """The fields of each mount that a process sees (proc(5), mountinfo): the fourth is what is mounted, the fifth
    where."""
    return [line.split() for line in Path(f"/proc/{process}/mountinfo").read_text().splitlines()]


@cache
def _begin() -> bool:
    """From now on mounts are private. False if that cannot be."""
    return not _LIBC.unshare(_CLONE_NEWNS) and _mount(None, Path("/"), None, _MS_REC | _MS_SLAVE)


def _available() -> int:
    """Bytes that can be had without swapping, here and in this container (proc(5), the kernel's cgroup-v2)."""
    told = re.search(r"^MemAvailable: *([0-9]+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    available = int(told[1]) << 10 if told else 0
    with suppress(OSError, ValueError):  # no cgroup of version 2, or one without a limit ("max")
        limit, used = (int(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current"))
        available = min(available, limit - used)
    return available


def _mount(source: str | None, target: Path, kind: str | None, flags: int, options: str | None = None) -> bool:
    texts = [text and os.fsencode(text) for text in (source, target, kind, options)]
    return not _LIBC.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])
