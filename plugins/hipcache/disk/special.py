"""Paths that the kernel answers itself: processes, devices, the machine."""

from __future__ import annotations

import os

_KERNEL = ("/proc/", "/sys/", "/dev/")
# A file system in memory (POSIX shared memory), in which people also build.
_MEMORY = "/dev/shm/"


def is_of_kernel(path: str) -> bool:
    """Is `path` (absolute) such a path?"""
    return path.startswith(_KERNEL) and not (path.startswith(_MEMORY) and os.path.normpath(path).startswith(_MEMORY))
