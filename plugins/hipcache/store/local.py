"""The local store: a directory that any number of threads, processes and containers of one host share.

What lies where, and why, is in layout.py; locks.py, ledger.py and upkeep.py keep the processes out of each other's
way and the store within its bound; scratch.py holds what is not finished; output.py writes into the build tree.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from blake3 import blake3

from hipcache.errors import StoreError
from hipcache.store import StoreSize, locks, output, scratch
from hipcache.store.faults import NO_HINTS, as_store_error
from hipcache.store.layout import (
    HEADER_BYTES,
    DamagedEntry,
    Layout,
    charge,
    discard,
    is_sealed,
    open_entry,
    pack_action,
    random_name,
    read_all,
    unpack_action,
    write_all,
)
from hipcache.store.ledger import Book, Ledger
from hipcache.store.seal import Seal
from hipcache.store.upkeep import Upkeep

T = TypeVar("T")

NO_SEAL = Seal()


class LocalStore:
    """The contract of `hipcache.store.Store` over the directory `root`, which the first write creates.

    `max_bytes` bounds what is held (0: no bound); an entry bigger than that is not kept. `clock` gives seconds since
    the epoch. `read_only`: nothing below `root` is changed, `put_*` store nothing. `seal`: that of the records; others
    are as absent.
    """

    def __init__(
        self,
        root: Path,
        *,
        max_bytes: int,
        clock: Callable[[], float] = time.time,
        read_only: bool = False,
        seal: Seal = NO_SEAL,
    ) -> None:
        self.root = root
        self.max_bytes = max_bytes
        self.read_only = read_only
        self.seal = seal
        self._clock = clock
        self._layout = Layout(root)
        self._ledger = Ledger(self._layout.ledger)
        self._upkeep = Upkeep(self._layout, self._ledger, clock)

    # Actions and blobs

    def get_action(self, key: str, *, own: bool = False) -> bytes | None:
        return self.get_record(self.seal.name(key), own=own)

    def get_record(self, name: str, *, own: bool = False) -> bytes | None:
        """The same by the name of its file."""
        with self._opened(self._layout.action(name)) as fd:
            if fd is None or (own and not _is_own(os.fstat(fd))):
                return None
            payload = unpack_action(name, read_all(fd), self.seal)
            self._touch(fd)
            return payload
        return None

    def has_sealed(self, name: str) -> bool:
        """Is there a record of some secret? Whether it is damaged, only those can tell who have that one."""
        with suppress(OSError, DamagedEntry):
            fd = open_entry(self._layout.action(name))
            try:
                return is_sealed(os.read(fd, HEADER_BYTES))
            finally:
                os.close(fd)
        return False

    def put_action(self, key: str, record: bytes, *, own: bool = False) -> None:
        if not self.read_only:
            name = self.seal.name(key)
            self._put(self._layout.action(name), pack_action(name, record, self.seal), own=own)

    def remove_action(self, key: str) -> None:
        path = self._layout.action(self.seal.name(key))
        if not self.read_only:
            with as_store_error("remove", path), suppress(FileNotFoundError):
                self._remove(path)

    def has_blob(self, digest: str) -> bool:
        return self.blob_size(digest) is not None

    def blob_size(self, digest: str) -> int | None:
        return _size(self._layout.blob(digest))

    def get_blob(self, digest: str) -> bytes | None:
        with self._opened(self._layout.blob(digest)) as fd:
            if fd is None:
                return None
            content = read_all(fd)
            if blake3(content).hexdigest() != digest:
                raise DamagedEntry
            self._touch(fd)
            return content
        return None

    def put_blob(self, content: bytes) -> str:
        digest = blake3(content).hexdigest()
        if not self.read_only:
            path = self._layout.blob(digest)
            # A file that the power loss left short or empty is replaced; other damage is found when it is read.
            if not (_size(path) == len(content) and self._touch(path)):
                self._put(path, content)
        return digest

    def copy_blob(self, digest: str, destination: Path) -> bool:
        with self._opened(self._layout.blob(digest)) as fd:
            if fd is None:
                return False
            with as_store_error("write", os.fspath(destination), hints=NO_HINTS):
                output.deliver(fd, digest, destination)
            self._touch(fd)
            return True
        return False

    # Work in progress

    @contextmanager
    def lock(self, key: str) -> Iterator[bool]:
        """See the contract. Without working locks, and in a read-only store, gives False: work may be done twice.

        Hold one key at a time: two processes that each wait for the other's key wait forever."""
        try:
            fd = -1 if self.read_only else self._open_locks()
        except OSError:
            fd = -1
        if fd < 0:
            yield False
            return
        with locks.held(fd, locks.key_offset(key)) as waited:
            yield bool(waited)

    @contextmanager
    def workdir(self) -> Iterator[Path]:
        """See the contract. A read-only store gives a private directory of the system's. Raises StoreError."""
        if self.read_only:
            import tempfile  # 5 ms, and only here

            with tempfile.TemporaryDirectory(prefix="hipcache-", ignore_cleanup_errors=True) as private:
                yield Path(private)
            return
        with ExitStack() as stack:
            with as_store_error("create a directory in", self._layout.tmp):
                made = stack.enter_context(scratch.work_directory(self._make_directory, self._layout.tmp))
            yield made

    # The store as a whole

    def size(self) -> StoreSize:
        """The ledger's numbers, or a count of all entries if it has none. Raises StoreError."""
        with as_store_error("read", self._layout.base):
            try:
                os.stat(self._layout.tmp)
            except FileNotFoundError:
                return StoreSize(0, 0, self.max_bytes)
            book = self._ledger.read()
            if book is None and not self.read_only:
                with suppress(OSError):
                    self._upkeep.count()
                    book = self._ledger.read()
            if book is None:
                book = Book()
                for entry in self._upkeep.entries():
                    book.add(entry.size)
            return StoreSize(book.bytes, book.entries, self.max_bytes)

    def collect(self, max_bytes: int | None = None) -> int:
        """See the contract. 0 removes every entry, None in a store without a bound removes none. Raises StoreError."""
        bound = max_bytes if max_bytes is not None else (self.max_bytes or None)
        with self._locked_upkeep("collect") as upkeep:
            freed = upkeep.sweep()
            entries = upkeep.count()
            return freed if bound is None else freed + upkeep.evict(upkeep.by_last_use(entries), bound)

    def clear(self) -> int:
        """See the contract. What live processes work on in tmp/ stays. Raises StoreError."""
        with self._locked_upkeep("clear") as upkeep:
            freed = upkeep.sweep()
            return freed + upkeep.evict(upkeep.count(), -1, spare_used=False)

    # How

    @contextmanager
    def _opened(self, path: str) -> Iterator[int | None]:
        """Open an entry to read, None if there is none. DamagedEntry ends here: the entry is removed."""
        try:
            fd = open_entry(path)
        except OSError:
            fd = None
        except DamagedEntry:
            self._drop(path, None)
            fd = None
        try:
            yield fd
        except DamagedEntry:
            self._drop(path, fd)
        finally:
            if fd is not None:
                os.close(fd)

    def _drop(self, path: str, fd: int | None) -> None:
        """Remove a damaged entry, unless another process has put a good one in its place. Raises nothing."""
        if not self.read_only:
            with suppress(OSError):
                self._remove(path, None if fd is None else os.fstat(fd).st_ino)

    def _remove(self, path: str, inode: int | None = None) -> None:
        status = os.lstat(path)
        with self._ledger.held() as book:
            if inode is not None and os.lstat(path).st_ino != inode:
                return
            discard(path)
            book.subtract(charge(status.st_size))
            book.save()

    def _touch(self, file: int | str) -> bool:
        """Note a use, if we may. False if there is no such file (any more)."""
        if self.read_only:
            return True
        now = int(self._clock() * 1e9)
        try:
            os.utime(file, ns=(now, now))
        except FileNotFoundError:
            return False
        except OSError:
            # Another user's file in a shared store: it can be set to the present time, if to any.
            with suppress(OSError):
                os.utime(file)
        return True

    def _put(self, path: str, content: bytes, *, own: bool = False) -> None:
        """Write an entry, then do the upkeep that is due. Raises StoreError."""
        if 0 < self.max_bytes < charge(len(content)):
            with suppress(OSError):
                self._remove(path)
            return
        with as_store_error("store", path):
            book = self._with_layout(lambda: self._write(path, content, 0o644 if own else 0o666))
        if self._upkeep.is_due(book, self.max_bytes):
            with suppress(OSError):
                self._upkeep.run(self.max_bytes)

    def _write(self, path: str, content: bytes, mode: int) -> Book:
        temporary = f"{self._layout.tmp}/put-{random_name()}"
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            try:
                scratch.mark_alive(fd)
                write_all(fd, content)
                self._touch(fd)
                return self._rename(temporary, path, charge(len(content)))
            finally:
                os.close(fd)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def _rename(self, temporary: str, path: str, size: int) -> Book:
        """The order matters, see ledger.py."""
        with self._ledger.held() as book:
            old = _size(path)
            book.add(size)
            book.save()
            try:
                _rename_into(temporary, path)
            except OSError:
                book.subtract(size)
                book.save()
                raise
            if old is not None:
                book.subtract(charge(old))
                book.save()
            return book

    def _with_layout(self, action: Callable[[], T]) -> T:
        """Do `action`; if the store is not there yet, or was deleted just now, make it and try again."""
        for _ in range(3):
            with suppress(FileNotFoundError):
                return action()
            self._layout.make()
        return action()

    def _make_directory(self, path: str) -> None:
        self._with_layout(lambda: os.mkdir(path))

    def _open_locks(self) -> int:
        return self._with_layout(lambda: locks.open_file(self._layout.locks))

    @contextmanager
    def _locked_upkeep(self, verb: str) -> Iterator[Upkeep]:
        if self.read_only:
            raise StoreError(f"cannot {verb} '{self.root}': the store is read-only", "unset HIPCACHE_READONLY")
        with as_store_error(verb, self._layout.base), locks.held(self._open_locks(), locks.UPKEEP):
            yield self._upkeep


def _is_own(found: os.stat_result) -> bool:
    """Has nobody but this user, or root, written it? Of the rights that an access control list gives, the mode shows
    the most."""
    return found.st_uid in (os.geteuid(), 0) and not found.st_mode & 0o022


def _rename_into(temporary: str, path: str) -> None:
    try:
        os.rename(temporary, path)
    except FileNotFoundError:
        os.mkdir(os.path.dirname(path))
        os.rename(temporary, path)
    except IsADirectoryError:
        discard(path)
        os.rename(temporary, path)


def _size(path: str) -> int | None:
    """The size of the regular file `path`, None if there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
