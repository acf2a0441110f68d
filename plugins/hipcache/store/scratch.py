"""The scratch directory, v2/tmp: entries while they are written, the files of compiles, and what dead processes left.

Each file and directory there is locked by the process that made it, for as long as that lives: a file itself, a
directory by `.lock` inside. The kernel drops the lock of a killed process, so whoever gets the lock knows that nobody
needs the thing any more. Rejected: process ids in names (two containers, or two hosts, have the same ones); age alone
(a link with device LTO takes an hour).

Work directories are for their maker alone (0700): what a compiler writes there by name must not be led elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hipcache.disk import locks
from hipcache.disk.confined import MOST_BLOB, Confined, is_strange
from hipcache.store import faults
from hipcache.store.layout import TMP, random_name

# A leftover must be this old: between the creation of a file and its lock it looks dead.
DEAD_SECONDS = 60
# ... and this old where there are no locks, and nobody can know whether its process lives.
DEAD_SECONDS_WITHOUT_LOCKS = 24 * 3600


def mark_alive(fd: int) -> None:
    """Let others see that the maker of `fd` lives, as long as it is open."""
    with suppress(OSError):
        locks.try_lock(fd, 0)


@contextmanager
def work_directory(make: Callable[[str], None], confined: Confined) -> Iterator[Path]:
    """A directory, made by `make` under its name in the store, that is removed at the end. Raises OSError if it cannot
    be made, also if the disk has no room for its content."""
    lacking = faults.lacking(confined.path(TMP))
    if lacking:
        raise OSError(errno.ENOSPC, f"the disk is full: {lacking}", confined.path(TMP))
    name = f"{TMP}/work-{random_name()}"
    lock = -1
    try:
        make(name)
        lock = confined.create(f"{name}/.lock", lock=True)
        mark_alive(lock)
        yield Path(confined.path(name))
    finally:
        confined.remove(name)
        if lock >= 0:
            locks.unlock(lock, 0)
            os.close(lock)


def leftovers(confined: Confined, now: float) -> Iterator[tuple[str, os.stat_result]]:
    """Names and states of what dead processes left in tmp/. `now`: seconds since the epoch. Raises nothing."""
    listing: list[tuple[str, os.stat_result]] = []
    with suppress(OSError):
        listing = confined.listing(TMP)
    for last, status in listing:
        with suppress(OSError):
            if _is_dead(confined, f"{TMP}/{last}", status, now):
                yield f"{TMP}/{last}", status


def _is_dead(confined: Confined, name: str, status: os.stat_result, now: float) -> bool:
    lock = name
    if stat.S_ISDIR(status.st_mode):
        lock = f"{name}/.lock"
        with suppress(FileNotFoundError):
            status = confined.status(lock)
    age = abs(now - status.st_mtime)  # a clock may have been ahead when it was made
    if age < DEAD_SECONDS:
        return False
    if not stat.S_ISREG(status.st_mode):
        return True
    try:
        fd = confined.open(lock, MOST_BLOB, os.O_RDWR)
    except OSError as error:
        return isinstance(error, FileNotFoundError) or is_strange(error)
    try:
        return locks.try_lock(fd, 0)
    except OSError:
        return age >= DEAD_SECONDS_WITHOUT_LOCKS
    finally:
        os.close(fd)
