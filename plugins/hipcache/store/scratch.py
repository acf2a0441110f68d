"""The scratch directory, v1/tmp: entries while they are written, the files of compiles, and what dead processes left.

Each file and directory there is locked by the process that made it, for as long as that lives: a file itself, a
directory by `.lock` inside. The kernel drops the lock of a killed process, so whoever gets the lock knows that nobody
needs the thing any more. Rejected: process ids in names (two containers, or two hosts, have the same ones); age alone
(a link with device LTO takes an hour).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hipcache.store import locks, space
from hipcache.store.layout import discard, listing, random_name, remove_tree

# A leftover must be this old: between the creation of a file and its lock it looks dead.
DEAD_SECONDS = 60
# ... and this old where there are no locks, and nobody can know whether its process lives.
DEAD_SECONDS_WITHOUT_LOCKS = 24 * 3600


def mark_alive(fd: int) -> None:
    """Let others see that the maker of `fd` lives, as long as it is open."""
    with suppress(OSError):
        locks.try_lock(fd, 0)


@contextmanager
def work_directory(make: Callable[[str], None], tmp: str) -> Iterator[Path]:
    """A directory in `tmp`, made by `make`, that is removed at the end. Raises OSError if it cannot be made, also where
    the disk has no room for what comes into it."""
    lacking = space.lacking(tmp)
    if lacking:
        raise OSError(errno.ENOSPC, f"the disk is full: {lacking}", tmp)
    path = f"{tmp}/work-{random_name()}"
    lock = -1
    try:
        make(path)
        lock = locks.open_file(f"{path}/.lock")
        mark_alive(lock)
        yield Path(path)
    finally:
        remove_tree(path)
        if lock >= 0:
            locks.unlock(lock, 0)
            os.close(lock)


def sweep(tmp: str, now: float) -> int:
    """Remove what dead processes left in `tmp`; the bytes freed. `now`: seconds since the epoch. Raises nothing."""
    freed = 0
    for found in listing(tmp):
        with suppress(OSError):
            if _is_dead(found.path, now):
                freed += _tree_bytes(found.path)
                discard(found.path)
    return freed


def _is_dead(path: str, now: float) -> bool:
    status = os.lstat(path)
    lock = path
    if stat.S_ISDIR(status.st_mode):
        lock = f"{path}/.lock"
        with suppress(FileNotFoundError):
            status = os.lstat(lock)
    age = now - status.st_mtime
    if age < DEAD_SECONDS:
        return False
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return True
    try:
        return locks.try_lock(fd, 0)
    except OSError:
        return age >= DEAD_SECONDS_WITHOUT_LOCKS
    finally:
        os.close(fd)


def _tree_bytes(path: str) -> int:
    size = os.lstat(path).st_size
    for directory, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                size += os.lstat(f"{directory}/{name}").st_size
    return size
