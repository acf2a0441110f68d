"""Work in progress at a store: keys and upkeep that one process at a time is at, and the scratch directory v2/tmp:
entries while they are written, the files of compiles, and what dead processes left.

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
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from hipcache.base import locks
from hipcache.base.errors import StoreError
from hipcache.store import faults
from hipcache.store.confined import MOST_BLOB, Confined, is_strange
from hipcache.store.entries import Entries
from hipcache.store.faults import as_store_error
from hipcache.store.layout import LOCKS, TMP, make, random_name

# Seconds to wait for a compile of this user's that makes the same: its process is known, lives, and is not stopped. For
# all others, see `locks`.
_PATIENCE = 1800.0
# After it did not come free once; and for another upkeep, which takes seconds.
_NO_PATIENCE, _UPKEEP_PATIENCE = 0.1, 10.0
_MOST_LOCKS = 1 << 20  # bytes of the file
# A leftover must be this old: between the creation of a file and its lock it looks dead.
DEAD_SECONDS = 60
# ... and this old where there are no locks, and nobody can know whether its process lives.
DEAD_SECONDS_WITHOUT_LOCKS = 24 * 3600


def open_locks(confined: Confined) -> int:
    """Raises OSError."""
    return confined.keep(LOCKS, _MOST_LOCKS, lock=True)


class Work:
    """`on_timeout` is told of a lock that did not come free, with the seconds waited."""

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._confined = entries.confined
        self._patience = _PATIENCE
        self.on_timeout: Callable[[float], object] = bool

    @contextmanager
    def alone(self, key: str, *, wait: bool = True) -> Iterator[bool | None]:
        """See `LocalStore.lock`. Without working locks, and in a read-only store, gives False: work may be done twice.
        So it may where the holder does not come to its end: then gives True after a while.

        Who holds a key may wait for one of a later stage of the same unit alone (front end, back end, link; see
        `build/loop`): two processes that each wait for the other's key wait until then."""
        try:
            fd = -1 if self._entries.read_only else self._open_locks()
        except OSError:
            fd = -1
        if fd < 0:
            yield False
            return
        offset, patience = locks.key_offset(key), self._patience
        with locks.held(fd, offset, wait=wait, patience=patience, on_timeout=self._give_up) as waited:
            yield waited

    @contextmanager
    def upkeep(self, verb: str) -> Iterator[None]:
        """Raises StoreError."""
        store = self._confined
        if self._entries.read_only:
            raise StoreError(f"cannot {verb} '{store.root}': the store is read-only", "unset HIPCACHE_READONLY")
        with as_store_error(verb, store.base), locks.held(self._open_locks(), locks.UPKEEP, patience=_UPKEEP_PATIENCE):
            try:
                make(store)
            except OSError as error:
                if error.errno not in faults.ERRORS:  # upkeep is what makes room
                    raise
            yield

    @contextmanager
    def directory(self) -> Iterator[Path]:
        """See `LocalStore.workdir`. Where others may write to the store, and in a read-only one, it is a private
        directory of the system's: what a compiler writes by name must not be led elsewhere. Raises StoreError."""
        place, read_only = self._confined.path(TMP), self._entries.read_only
        with ExitStack() as stack:
            if not read_only:
                with as_store_error("create a directory in", place):
                    self._entries.with_layout(lambda: self._confined.status(TMP))
            if read_only or not faults.is_private(self._confined):
                import tempfile  # 5 ms, and only here

                private = tempfile.TemporaryDirectory(prefix="hipcache-", ignore_cleanup_errors=True)
                yield Path(stack.enter_context(private))
                return
            with as_store_error("create a directory in", place):
                made = self._entries.with_layout(  # a link in the place of tmp/ is replaced
                    lambda: stack.enter_context(work_directory(self._confined.make_private_directory, self._confined))
                )
            yield made

    def _open_locks(self) -> int:
        return self._entries.with_layout(lambda: open_locks(self._confined))

    def _give_up(self, seconds: float) -> None:
        self._patience = _NO_PATIENCE
        self.on_timeout(seconds)


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
        locks.mark_alive(lock)
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
