"""The files of a store that count: put whole, read, touched and removed, and each time the ledger is kept right.

An entry is written to a file of its own in tmp/, and renamed to its name under the ledger's lock (ledger.py has the
order of steps); several that are put together, under one. A name is that of `confined`: "blobs/abcdef...".
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar

from hipcache.base import locks
from hipcache.base.files import Descriptor, write_all
from hipcache.base.hashing import blake3
from hipcache.store import packs
from hipcache.store.confined import Confined, Steady
from hipcache.store.layout import BLOBS, TMP, DamagedEntry, charge, make, open_entry, random_name, read_all
from hipcache.store.ledger import Book, Ledger
from hipcache.store.packs import Packs, is_packed

T = TypeVar("T")
# The use of a pack is noted once in so many nanoseconds: a compile reads a dozen entries of one.
_NOTED = 60 * 10**9


class Entries:
    """`clock` gives seconds since the epoch. `read_only`: nothing is changed."""

    def __init__(self, confined: Confined, ledger: Ledger, clock: Callable[[], float], *, read_only: bool) -> None:
        self.confined = confined
        self.read_only = read_only
        self.packs = Packs(confined)
        self._ledger = ledger
        self._clock = clock
        self._packs_of: dict[int, str] = {}
        self._noted: dict[str, int] = {}

    @contextmanager
    def opened(self, name: str, most: int) -> Iterator[int | None]:
        """Open an entry to read, None if there is none. DamagedEntry ends here: the entry is removed, or its pack."""
        fd, pack = None, None
        try:
            fd = open_entry(self.confined, name, most)
        except OSError:
            with suppress(OSError):
                fd, pack = self._unpacked(name, most)
        except DamagedEntry:
            self._drop(name, None)
        try:
            yield fd
        except DamagedEntry:
            if pack is None:
                self._drop(name, fd)
            else:
                self._drop(pack, None)
        finally:
            if fd is not None:
                self._packs_of.pop(fd, None)
                os.close(fd)

    def _unpacked(self, name: str, most: int) -> tuple[Descriptor | None, str | None]:
        """A file in memory with the entry's content, and the pack that it is from. What others can write there, they
        can write here. Raises OSError."""
        place = self.packs.find(name) if is_packed(name) else None
        if place is None or place.size > most:
            return None, None
        status = self.confined.status(place.pack)
        try:
            content = self.packs.read(place)
        except DamagedEntry:
            self._drop(place.pack, None)
            return None, None
        fd = Descriptor(os.memfd_create("hipcache"))
        mine = status.st_uid in (os.geteuid(), 0)
        os.fchmod(fd, status.st_mode & 0o777 if mine else 0o666)
        write_all(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        self._packs_of[fd] = place.pack
        return fd, place.pack

    def size(self, name: str) -> int | None:
        """The size of the entry `name`, None if there is none."""
        return self._size(self.confined, name)

    def sizes(self, names: Iterable[str]) -> dict[str, int | None]:
        """The same for several."""
        with Steady(self.confined) as confined:
            return {name: self._size(confined, name) for name in names}

    def _size(self, confined: Confined, name: str) -> int | None:
        size = _size(confined, name)
        place = self.packs.find(name) if size is None and is_packed(name) else None
        return place.size if place else size

    def touch(self, entry: int | str) -> bool:
        """Note a use of an open or named entry, if we may. False if there is no such file (any more)."""
        if self.read_only:
            return True
        now = int(self._clock() * 1e9)
        pack = self._packs_of.get(entry) if isinstance(entry, int) else None
        if pack is not None:
            if now - self._noted.get(pack, 0) < _NOTED:
                return True
            self._noted[pack] = now
            entry = pack
            # Behind it, so that no base is older than what needs it.
            return all(self.touch(name) for name in (pack, *self.packs.table(pack).bases))
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

    def pack(self, names: Iterable[str]) -> None:
        """Put these entries, that have files of their own, into one pack. Nothing is lost if this is interrupted: the
        files go last, and what is in none is found by the next count. Raises OSError, ZstdError."""
        contents: dict[str, bytes] = {}
        inodes: dict[str, int] = {}
        used = 0
        pack, temporary = packs.new_name(), f"{TMP}/put-{random_name()}"
        fd = self.confined.create(temporary)
        try:
            locks.mark_alive(fd)
            with Steady(self.confined) as confined:
                for name in names:
                    if sum(map(len, contents.values())) > packs.MOST_TOGETHER:
                        break
                    with suppress(OSError, DamagedEntry):
                        used = max(used, self._take(confined, name, os.fstat(fd), contents, inodes))
            if not contents:
                self.confined.unlink(temporary)
                return
            content = packs.build(contents, self._clock(), self.packs.bases())
            write_all(fd, content)
            os.utime(fd, ns=(used, used))
            with self._ledger.held() as book, Steady(self.confined) as confined:
                book.add(charge(pack, len(content)))
                book.save()
                confined.rename(temporary, pack)
                self.packs.note(pack, contents)
                for name, inode in inodes.items():
                    with suppress(OSError):
                        status = confined.status(name)
                        if status.st_ino == inode:  # else another process has replaced it
                            confined.unlink(name)
                            book.subtract(charge(name, status.st_size))
                book.save()
        except BaseException:
            with suppress(OSError):
                self.confined.unlink(temporary)
            raise
        finally:
            os.close(fd)

    def _take(
        self, confined: Confined, name: str, pack: os.stat_result, contents: dict[str, bytes], inodes: dict[str, int]
    ) -> int:
        """Read an entry, if the pack may hold it: nobody else has written it, and who can write the one can write the
        other. Gives its last use, or 0. Raises OSError, DamagedEntry."""
        with open_entry(confined, name, packs.MOST) as entry:
            status = os.fstat(entry)
            content = read_all(entry)
            may_be = (status.st_uid, status.st_mode & 0o022) == (pack.st_uid, pack.st_mode & 0o022)
            if may_be and (not name.startswith(f"{BLOBS}/") or name.endswith(f"/{blake3(content).hexdigest()}")):
                contents[name], inodes[name] = content, status.st_ino
                return status.st_mtime_ns
            return 0

    def unpack(self, name: str) -> None:
        """Remove the packs that have the entry. Raises nothing."""
        while not self.read_only and (place := self.packs.find(name)):
            self._drop(place.pack, None)
            if place == self.packs.find(name):
                return  # it cannot be removed

    def with_layout(self, action: Callable[[], T]) -> T:
        """Do `action`; if the store is not there yet, or was deleted just now, make it and try again."""
        for _ in range(3):
            with suppress(FileNotFoundError, NotADirectoryError):
                return action()
            make(self.confined)
        return action()

    def _drop(self, name: str, fd: int | None) -> None:
        """Remove a damaged entry, unless another process has put a good one in its place. Raises nothing."""
        self.packs.forget(name)
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
                    locks.mark_alive(fds[-1])
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
        confined.rename_over(temporary, name)
    except (FileNotFoundError, NotADirectoryError):
        _make_parents(confined, name)
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
