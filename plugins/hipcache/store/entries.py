"""The files of a store that count: put whole, read, touched and removed, and each time the ledger is kept right.

An entry is written to a file of its own in tmp/, and renamed to its name under the ledger's lock (ledger.py has the
order of steps); several that are put together, under one. A name is that of `confined`: "blobs/ab/cdef...".
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar

from hipcache.disk.confined import Confined, Steady
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
        """The size of the regular file `name`, None if there is none."""
        return _size(self.confined, name)

    def sizes(self, names: Iterable[str]) -> dict[str, int | None]:
        """The same for several."""
        with Steady(self.confined) as confined:
            return {name: _size(confined, name) for name in names}

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

    def put(self, those: Mapping[str, bytes], *, own: bool = False) -> Book:
        """Entries by name, with one lock of the ledger for all of them. Each is whole or not there, and if this fails
        some of them may be. `own`: only this user may write them, whoever may write the store. Raises OSError."""
        return self.with_layout(lambda: self._write(those, own))

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

    def _write(self, those: Mapping[str, bytes], own: bool) -> Book:
        temporaries: dict[str, str] = {}
        fds: list[int] = []
        try:
            with Steady(self.confined) as confined:
                for name, content in those.items():
                    # A signal's handler raises as soon as the kernel has made the file.
                    temporaries[name] = f"{TMP}/put-{random_name()}"
                    fds.append(confined.create(temporaries[name], own=own))
                    scratch.mark_alive(fds[-1])
                    write_all(fds[-1], content)
                    self.touch(fds[-1])
            return self._rename(temporaries, {name: charge(name, len(content)) for name, content in those.items()})
        except BaseException:
            for temporary in temporaries.values():
                with suppress(OSError):
                    self.confined.unlink(temporary)
            raise
        finally:
            for fd in fds:
                os.close(fd)

    def _rename(self, temporaries: Mapping[str, str], sizes: Mapping[str, int]) -> Book:
        """The order matters, see ledger.py. What is renamed leaves `left`."""
        left, replaced = dict(sizes), list[tuple[int, int]]()
        with self._ledger.held() as book, Steady(self.confined) as confined:
            for size in sizes.values():
                book.add(size)
            book.save()
            try:
                for name, temporary in temporaries.items():
                    old = _size(confined, name)
                    _rename_into(confined, temporary, name)
                    del left[name]
                    replaced += [] if old is None else [(charge(name, old), sizes[name])]
            except OSError:
                for size in left.values():
                    book.subtract(size)
                raise
            finally:
                for old_size, new_size in replaced:
                    book.replace(old_size, new_size)
                if left or replaced:
                    book.save()
            return book


def _size(confined: Confined, name: str) -> int | None:
    try:
        status = confined.status(name)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _rename_into(confined: Confined, temporary: str, name: str) -> None:
    try:
        confined.rename(temporary, name)
    except (FileNotFoundError, NotADirectoryError):
        _make_parents(confined, name)
        confined.rename(temporary, name)
    except IsADirectoryError:
        confined.discard(name)
        confined.rename(temporary, name)


def _make_parents(confined: Confined, name: str) -> None:
    """As a rule the last directory alone is missing."""
    directory = name.rpartition("/")[0]
    try:
        confined.make_directory(directory)
    except (FileNotFoundError, NotADirectoryError):
        if "/" not in directory:
            raise
        _make_parents(confined, directory)
        confined.make_directory(directory)
