"""Paths that the kernel answers itself: processes, devices, the machine."""

from __future__ import annotations

import os

#: What a process reads there decides nothing about its output. The last one is read by allocators (mimalloc as Python
#: starts, jemalloc, glibc's for threads): may memory be reserved that is not there?
HARMLESS = (os.devnull, "/dev/urandom", "/proc/sys/vm/overcommit_memory")

_KERNEL = ("/proc/", "/sys/", "/dev/")
# A file system in memory (POSIX shared memory), in which people also build.
_MEMORY = "/dev/shm/"
# What a process has below here is another one's elsewhere: its directory and its root, and what is open in it.
_SELF, _CWD, _ROOT = "/proc/self/", "/proc/self/cwd/", "/proc/self/root/"


def is_of_kernel(path: str) -> bool:
    """Is `path` (absolute) such a path?"""
    return path.startswith(_KERNEL) and not (path.startswith(_MEMORY) and os.path.normpath(path).startswith(_MEMORY))


def is_own(path: str) -> bool:
    """Is it what a process has for itself alone (an open file, its program)? As `is_own` of native/observer.c."""
    return path.startswith(_SELF) and not any(part in path for part in ("/cwd", "/root", "/.."))


def absolute(path: str, cwd: str) -> str:
    """`path`, as a process that works in `cwd` names it, for all others: without /proc/self/cwd (Bazel's PWD) and
    /proc/self/root. As `for_all` of native/observer.c."""
    if path.startswith("/") and not path.startswith(_SELF):
        return path
    if path.startswith(_SELF):
        while (path + "/").startswith(_ROOT):
            path = path[len(_ROOT) - 1 :] or "/"
        if (path + "/").startswith(_CWD):
            path = path[len(_CWD) :].lstrip("/") or "."
    return os.path.join(cwd, path)
