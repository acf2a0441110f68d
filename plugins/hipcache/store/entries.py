"""The files of a store that count: put whole, read, touched and removed, and each time the ledger is kept right.

An entry is written to a file of its own in tmp/, and renamed to its name under the ledger's lock (ledger.py has the
order of steps). A name is that of `confined`: "blobs/ab/cdef...".
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from hipcache.disk.confined import Confined
from hipcache.store import scratch
from hipcache.store.layout import TMP, DamagedEntry, charge, make, open_entry, random_name, write_all
from hipcache.store.ledger import Book, Ledger

T = TypeVar("T")


class Entries:
    """`clock` gives seconds since the epoch. `read_only`: nothing is changed."""

    def __init__(self, confined: Confined, ledger: Ledger, clock: Callable[[], float], *, read_only: bool) -> None:
        self.confined = confined
        self.read_only = read_only
        self._ledger = ledger
        self._clock = clock

    @contextmanager
    def opened(self, name: str, most: int) -> Iterator[int | None]:
        """Open an entry to read, None if there is none. DamagedEntry ends here: the entry is removed."""
        try:
            fd = open_entry(self.confined, name, most)
        except OSError:
            fd = None
        except DamagedEntry:
            self._drop(name, None)
            fd = None
        try:
            yield fd
        except DamagedEntry:
            self._drop(name, fd)
        finally:
            if fd is not None:
                os.close(fd)

    def size(self, name: str) -> int | None:
        """Of the regular file `name`, None if there is none."""
        try:
            status = self.confined.status(name)
        except OSError:
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def touch(self, entry: int | str) -> bool:
        """Note a use of an open or named entry, if we may. False if there is no such file (any more)."""
        if self.read_only:
            return True
        now = int(self._clock() * 1e9)
        try:
            if isinstance(entry, int):
                os.utime(entry, ns=(now, now))
            else:
                self.confined.touch(entry, now)
        except FileNotFoundError:
            return False
        except OSError:
            # Another user's file in a shared store: it can be set to the present time, if to any.
            with suppress(OSError):
                os.utime(entry) if isinstance(entry, int) else self.confined.touch(entry)
        return True

    def put(self, name: str, content: bytes, *, own: bool = False) -> Book:
        """`own`: only this user may write the file, whoever may write the store. Raises OSError."""
        return self.with_layout(lambda: self._write(name, content, own))

    def remove(self, name: str, inode: int | None = None) -> None:
        """`inode`: only if it is that one. Raises OSError."""
        status = self.confined.status(name)
        with self._ledger.held() as book:
            if inode is not None and self.confined.status(name).st_ino != inode:
                return
            self.confined.discard(name)
            book.subtract(charge(name, status.st_size))
            book.save()

    def with_layout(self, action: Callable[[], T]) -> T:
        """Do `action`; if the store is not there yet, or was deleted just now, make it and try again."""
        for _ in range(3):
            with suppress(FileNotFoundError, NotADirectoryError):
                return action()
            make(self.confined)
        return action()

    def _drop(self, name: str, fd: int | None) -> None:
        """Remove a damaged entry, unless another process has put a good one in its place. Raises nothing."""
        if not self.read_only:
            with suppress(OSError):
                self.remove(name, None if fd is None else os.fstat(fd).st_ino)

    def _write(self, name: str, content: bytes, own: bool) -> Book:
        temporary = f"{TMP}/put-{random_name()}"
        fd = -1
        try:
            # A signal's handler raises as soon as the kernel has made the file.
            fd = self.confined.create(temporary, own=own)
            scratch.mark_alive(fd)
            write_all(fd, content)
            self.touch(fd)
            return self._rename(temporary, name, charge(name, len(content)))
        except BaseException:
            with suppress(OSError):
                self.confined.unlink(temporary)
            raise
        finally:
            if fd >= 0:
                os.close(fd)

    def _rename(self, temporary: str, name: str, size: int) -> Book:
        """The order matters, see ledger.py."""
        with self._ledger.held() as book:
            old = self.size(name)
            book.add(size)
            book.save()
            try:
                self._rename_into(temporary, name)
            except OSError:
                book.subtract(size)
                book.save()
                raise
            if old is not None:
                book.subtract(charge(name, old))
                book.save()
            return book

    def _rename_into(self, temporary: str, name: str) -> None:
        try:
            self.confined.rename(temporary, name)
        except (FileNotFoundError, NotADirectoryError):
            parts = name.split("/")
            for depth in range(1, len(parts)):
                self.confined.make_directory("/".join(parts[:depth]))
            self.confined.rename(temporary, name)
        except IsADirectoryError:
            self.confined.discard(name)
            self.confined.rename(temporary, name)
