"""The local store: a directory that any number of threads, processes and containers of one host share.

What lies where, and why, is in layout.py; entries.py puts, reads and removes files; work.py keeps the processes out of
each other's way, and what is not finished apart; ledger.py and upkeep.py keep the store within its limit; output.py
writes into the build tree. All of them reach the disk through `confined`.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from hipcache.base import compression, native
from hipcache.base.errors import StoreError
from hipcache.base.hashing import blake3
from hipcache.base.values import dataclass, field
from hipcache.config import Config
from hipcache.store import StoreSize, faults, output, seal
from hipcache.store.confined import MOST_BLOB, MOST_NOTE, MOST_RECORD, Confined
from hipcache.store.entries import Entries
from hipcache.store.faults import NO_HINTS, as_store_error
from hipcache.store.layout import (
    HISTORY,
    TMP,
    DamagedEntry,
    action_name,
    blob_name,
    charge,
    digests,
    is_sealed,
    last_use,
    pack_action,
    read_all,
    unpack_action,
)
from hipcache.store.packs import Table, is_packed
from hipcache.store.seal import NO_SEAL, Seal
from hipcache.store.upkeep import Upkeep, no_progress
from hipcache.store.work import Work


class Notes:
    """The small files below history/, that only cost an explanation when they are lost. They count towards the limit as
    all entries do, and are evicted with them. `put` writes one, and raises StoreError."""

    def __init__(self, entries: Entries, put: Callable[[str, bytes], None], now: Callable[[], float]):
        self._entries = entries
        self._put = put
        self._now = now

    def get(self, name: str) -> bytes | None:
        with self._entries.opened(self._name(name), MOST_NOTE) as fd:
            return None if fd is None else read_all(fd)
        return None

    def put(self, name: str, content: bytes, *, when: float | None = None) -> bool:
        """`when`: its modification time. False if it cannot be kept."""
        if self._entries.read_only or len(content) > MOST_NOTE:
            return False
        try:
            self._put(self._name(name), content)
            if when is not None:
                self._entries.confined.touch(self._name(name), int(when * 1e9))
        except (StoreError, OSError):
            return False
        return True

    def remove(self, name: str) -> None:
        with suppress(OSError):
            if not self._entries.read_only:
                self._entries.remove(self._name(name))

    def listing(self, name: str = "") -> list[tuple[int, str]]:
        """(last use, name below this directory) of each file there."""
        now = self._now()
        return [
            (last_use(status.st_mtime_ns, now), f"{name}/{last}".lstrip("/"))
            for last, status in self._listing(name)
            if stat.S_ISREG(status.st_mode)
        ]

    def directories(self) -> list[str]:
        return [last for last, status in self._listing("") if stat.S_ISDIR(status.st_mode)]

    def _listing(self, name: str) -> list[tuple[str, os.stat_result]]:
        try:
            return self._entries.confined.listing(self._name(name) if name else HISTORY)
        except OSError:
            return []

    def _name(self, name: str) -> str:
        return f"{HISTORY}/{name}"


# The use of a blob that is opened, and not copied, is noted once in so many seconds.
_NOTED = 3600
# Entries that are put together: each is an open file until then, and others wait for the ledger while they are renamed.
_PORTION = 64
# Entries of one pack, at most.
_PACKED = 1024


class LocalStore:
    """The store in the directory `root`, which the first write creates: get, put, remove. Absent and damaged look the
    same: `None` or `False`, and damage is removed.

    Every `get` checks the content against its digest before anything is returned. `put` either stores the whole entry
    or raises StoreError; a reader never sees half of one. All methods may be called by any number of threads and
    processes at once. A key or digest that is none raises ValueError.

    `max_bytes` limits what is held (0: no limit); an entry bigger than that is not kept. `clock` gives seconds since
    the epoch. `read_only`: nothing below `root` is changed, `put_*` store nothing. `umask`: as HIPCACHE_UMASK.
    `seal`: that of the records; others are as absent. `packs`: as HIPCACHE_PACKS. `defers_upkeep`: to
    `pack`, when the compile's entries take less.
    """

    def __init__(
        self,
        root: Path,
        *,
        max_bytes: int,
        clock: Callable[[], float] = time.time,
        read_only: bool = False,
        seal: Seal = NO_SEAL,
        umask: int | None = None,
        packs: bool = True,
        defers_upkeep: bool = False,
    ) -> None:
        self.root = root
        self.max_bytes = max_bytes
        self.read_only = read_only
        self.seal = seal
        self._clock = clock
        self.confined = Confined(root, umask)
        self._upkeep = Upkeep(self.confined, clock)
        self._entries = Entries(self.confined, self._upkeep.ledger, clock, read_only=read_only)
        self._puts = Puts(self._entries, self._upkeep, max_bytes, packs and not read_only, defers_upkeep)
        self.work = Work(self._entries)

    def pack(self) -> None:
        """Put what was put since the last time into one pack. Only room is lost if that cannot be done: raises nothing.
        A compile has ended, and what is used from now on is the next one's."""
        self._puts.pack()
        self._upkeep.since = self._clock()

    def whole(self) -> LocalStore:
        """It to be read, with all that is in packs, whatever the index tells. Raises StoreError."""
        reader = LocalStore(self.root, max_bytes=0, read_only=True, seal=self.seal)
        with as_store_error("read", self.confined.base), suppress(FileNotFoundError):
            reader._entries.packs.list_all()
        return reader

    def pack_by_use(self) -> None:
        """The same, but one pack for those that were last used in one second: most such are of one compile."""
        self._puts.pack(lambda name: self.confined.status(name).st_mtime_ns // 10**9)

    def packed(self, tree: str) -> dict[str, str]:
        """The pack (its name below `v2/`) by what names it of each that has no file of its own."""
        found: dict[str, str] = {}
        for pack, _ in self._entries.packs.names():
            entries = self._entries.packs.table(pack).entries
            found |= {name.rpartition("/")[2]: pack for name in entries if name.startswith(f"{tree}/")}
        for name, _ in digests(self.confined, tree):
            found.pop(name, None)
        return found

    def packs(self) -> Iterator[tuple[str, set[str], frozenset[str]]]:
        """Names below `v2/`: of each pack, of those that it needs, and of its entries."""
        for pack, _ in self._entries.packs.names():
            yield pack, self._entries.packs.needs(pack), frozenset(self._entries.packs.table(pack).entries)

    def tables(self) -> Iterator[Table]:
        """Of all packs."""
        return (self._entries.packs.table(pack) for pack, _ in self._entries.packs.names())

    def names(self, tree: str) -> dict[str, int]:
        """Last use (nanoseconds) by what names it of each record (`tree`: ACTIONS) or content (BLOBS)."""
        found: dict[str, int] = {}
        for pack, status in self._entries.packs.names():
            for name in self._entries.packs.table(pack).entries:
                if name.startswith(f"{tree}/"):
                    digest = name.rpartition("/")[2]
                    found[digest] = max(found.get(digest, 0), status.st_mtime_ns)
        return found | {digest: status.st_mtime_ns for digest, status in digests(self.confined, tree)}

    def notes(self) -> Notes:
        return Notes(self._entries, self._puts.put, self._clock)

    # Actions and blobs

    def get_action(self, key: str, *, own: bool = False) -> bytes | None:
        """`own`: only one that this user wrote with `own`, or root, and that nobody else can write to: for what names
        programs that are run."""
        return self.get_record(self.seal.name(key), own=own)

    def get_record(self, name: str, *, own: bool = False) -> bytes | None:
        """The same by the name of its file."""
        with self._entries.opened(action_name(name), MOST_RECORD) as fd:
            if fd is None or (own and not _is_own(os.fstat(fd))):
                return None
            payload = unpack_action(name, read_all(fd), self.seal)
            self._entries.touch(fd)
            return payload
        return None

    def get_raw(self, name: str) -> bytes | None:
        """The file of a record, of whatever seal; unchecked, and no use of it."""
        with self._entries.opened(action_name(name), MOST_RECORD) as fd:
            return None if fd is None else read_all(fd)
        return None

    def has_sealed(self, name: str) -> bool:
        """Is there a record of some secret? Whether it is damaged, only those can tell who have that one."""
        return is_sealed(self.get_raw(name) or b"")

    def put_action(self, key: str, record: bytes, *, own: bool = False) -> None:
        self.put_record(self.seal.name(key), record, own=own)

    def put_record(self, name: str, record: bytes, *, own: bool = False) -> None:
        """The same by the name of its file."""
        if not self.read_only:
            self._puts.put(action_name(name), pack_action(name, record, self.seal), own=own)

    def put_actions(self, records: Mapping[str, bytes]) -> None:
        """Several at once, which costs less. Each is stored or not; StoreError if one could not be."""
        if not self.read_only:
            named = {self.seal.name(key): record for key, record in records.items()}
            self._puts.put_all({action_name(name): pack_action(name, named[name], self.seal) for name in named})

    def remove_action(self, key: str) -> None:
        name = action_name(self.seal.name(key))
        if not self.read_only:
            with as_store_error("remove", self.confined.path(name)), suppress(FileNotFoundError):
                self._entries.remove(name)
            self._entries.unpack(name)

    def has_blob(self, digest: str) -> bool:
        """Is there a file of that name? Cheap; the content is not read (`get_blob` checks it)."""
        return self.blob_size(digest) is not None

    def blob_size(self, digest: str) -> int | None:
        """Its size, None if it is not there. As cheap."""
        return self._entries.size(blob_name(digest))

    def get_blob(self, digest: str) -> bytes | None:
        with self._entries.opened(blob_name(digest), MOST_BLOB) as fd:
            if fd is None:
                return None
            content = read_all(fd)
            if blake3(content).hexdigest() != digest:
                raise DamagedEntry
            self._entries.touch(fd)
            return content
        return None

    def put_blob(self, content: bytes) -> str:
        """Store `content` under its digest and return the digest. A blob that is there already is kept."""
        (digest,) = self.put_blobs([content])
        return digest

    def put_blobs(self, contents: Iterable[bytes]) -> list[str]:
        """The same for several, as of `put_actions`: their digests, in that order."""
        named = [(blake3(content).hexdigest(), content) for content in contents]
        if not self.read_only:
            wanted = {blob_name(digest): content for digest, content in named}
            sizes = self._entries.sizes(wanted)
            # A damaged one is replaced now: who puts it has run a compiler, and its next reader would have to run that
            # again. Reading it costs nothing beside that.
            same_size = {digest for digest, content in named if sizes[blob_name(digest)] == len(content)}
            there = {blob_name(digest) for digest in same_size if self.get_blob(digest) is not None}
            self._puts.put_all({name: content for name, content in wanted.items() if name not in there})
        return [digest for digest, _ in named]

    def copy_blob(self, digest: str, destination: Path) -> bool:
        """Write the blob to `destination`, which appears whole (temporary file beside it, then rename), with
        permissions as a compiler would give (0o666 less umask), and never as a link into the store.

        As clang does, it replaces a symbolic link and writes into a special file (/dev/null, a FIFO). Raises StoreError
        if `destination` cannot be written."""
        with self._entries.opened(blob_name(digest), MOST_BLOB) as fd:
            if fd is None:
                return False
            with as_store_error("write", os.fspath(destination), hints=NO_HINTS):
                output.deliver(fd, digest, destination)
            self._entries.touch(fd)
            return True
        return False

    def open_blob(self, digest: str, known: str = "") -> tuple[int, str] | None:
        """(a descriptor of the blob's file, to be read only and closed; the file's identity and times). None also where
        another user could write into the file, against which only a copy helps. `known`: the identity when it was last
        opened: if it still is that, the content is not checked again."""
        with self._entries.opened(blob_name(digest), MOST_BLOB) as fd:
            if fd is None or not _is_own(os.fstat(fd)):
                return None
            # Each use that is noted gives the file another time.
            if _identity(fd) != known or self._clock() - os.fstat(fd).st_mtime > _NOTED:
                if output.hash_of(fd) != digest:
                    raise DamagedEntry
                self._entries.touch(fd)
            return os.dup(fd), _identity(fd)
        return None

    # Work in progress

    def lock(self, key: str, *, wait: bool = True) -> AbstractContextManager[bool | None]:
        """Hold `key` against all other threads and processes while they would do the same work.

        Gives True if another one held it first (so that the caller looks again before it works); None if another one
        holds it and `wait` is False: then the caller does not hold it. The kernel releases it when its process dies.
        Hold one key at a time: the kernel finds no deadlocks here."""
        return self.work.alone(key, wait=wait)

    def workdir(self) -> AbstractContextManager[Path]:
        """A fresh directory for the intermediate files of one compile, removed at the end; if this process is killed, a
        later one sweeps it. It may hold a file `.lock`, which is not the caller's."""
        return self.work.directory()

    # The store as a whole

    def size(self, *, beside: bool = False) -> StoreSize:
        """The ledger's numbers, or a count of all entries if it has none. `beside`: with what is no entry,
        which is looked at for that. Raises StoreError."""
        with as_store_error("read", self.confined.base):
            try:
                self.confined.status(TMP)
            except FileNotFoundError:
                return StoreSize(0, 0, self.max_bytes)
            book = self._upkeep.book(count=not self.read_only)
            return StoreSize(book.bytes + (self._upkeep.beside() if beside else 0), book.entries, self.max_bytes)

    def used(self, directory: str = "") -> list[tuple[float, int]]:
        """The last use (seconds of the epoch) and the bytes of each entry (in that directory)."""
        with as_store_error("read", self.confined.base):
            entries = self._upkeep.entries()
            return [(entry.mtime_ns / 1e9, entry.size) for entry in entries if entry.name.startswith(directory)]

    def collect(
        self,
        max_bytes: int | None = None,
        *,
        unused_for: float | None = None,
        keeping: Callable[[], Container[str]] | None = None,
        dry_run: bool = False,
        progress: Callable[[int], object] = no_progress,
    ) -> int:
        """Remove the least recently used entries until at most `max_bytes` (default: the limit) are held, sweep
        leftovers; return the bytes freed. 0 removes every entry, None in a store without a limit none. First goes what
        was surely not used for `unused_for` seconds, and what is not among `keeping` (names below `v2/`; asked for once
        the entries are listed: what is put later stays). `dry_run`: remove nothing; the bytes that would be freed.
        `progress` is told how many entries are removed. Raises StoreError."""
        limit = max_bytes if max_bytes is not None else (self.max_bytes or None)
        with as_store_error("read", self.confined.base) if dry_run else self.work.upkeep("collect"):
            swept = self._upkeep.sweep(dry_run=dry_run)
            return swept + self._upkeep.collect(limit, unused_for, keeping, progress, dry_run=dry_run)

    def tell(self, evicted: Callable[[int, int], object], counted: Callable[[int, int], object]) -> None:
        """From now on: `evicted` the entries that are removed and their bytes, `counted` the bytes held and entries."""
        self._upkeep.on_evicted, self._upkeep.on_counted = evicted, counted

    def clear(self, *, progress: Callable[[int], object] = no_progress) -> int:
        """Remove every entry, safely while other processes compile; return the bytes freed. What live processes work on
        in tmp/ stays. `progress` as above. Raises StoreError."""
        with self.work.upkeep("clear"):
            return self._upkeep.sweep() + self._upkeep.clear(progress)


def _identity(fd: int) -> str:
    found = os.fstat(fd)
    return f"{found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _is_own(found: os.stat_result) -> bool:
    """Has nobody but this user, or root, written it? Of the rights that an access control list gives, the mode shows
    the most."""
    return found.st_uid in (os.geteuid(), 0) and not found.st_mode & 0o022


@dataclass(frozen=True)
class Puts:
    """Puts the entries that the limit allows (`max_bytes`, or 0), in portions, and then does the upkeep that is due."""

    entries: Entries
    upkeep: Upkeep
    max_bytes: int
    packs: bool
    defers_upkeep: bool = False
    _fresh: dict[str, None] = field(default_factory=dict)

    def pack(self, together: Callable[[str], object] = lambda name: None) -> None:
        """Put the records and contents that were put since the last time into packs, the newest first: one pack for
        those of which `together` gives the same."""
        if not self._packs():
            return
        groups = dict[object, list[str]]()
        with suppress(OSError, compression.ZstdError, MemoryError):
            for name in list(self._fresh):
                self._fresh.pop(name, None)
                with suppress(OSError):
                    groups.setdefault(together(name), []).append(name)
            for names in groups.values():
                for end in range(len(names), 0, -_PACKED):
                    self.entries.pack(names[max(0, end - _PACKED) : end][::-1])
        with suppress(OSError):
            self.upkeep.run(self.max_bytes)

    def _packs(self) -> bool:
        return self.packs and bool(compression.library()) and native.reads_packs()

    def put(self, name: str, content: bytes, *, own: bool = False) -> None:
        """Write an entry, then do the upkeep that is due. Raises StoreError."""
        self.put_all({name: content}, own=own)

    def put_all(self, those: Mapping[str, bytes], *, own: bool = False) -> None:
        """The same for any number of them. What is too large for the store is not kept, nor what it had there."""
        names = [name for name, content in those.items() if self._is_kept(name, content)]
        for start in range(0, len(names), _PORTION):
            self._put({name: those[name] for name in names[start : start + _PORTION]}, own=own)

    def _is_kept(self, name: str, content: bytes) -> bool:
        if 0 < self.max_bytes < charge(name, len(content)) or len(content) > MOST_BLOB:
            with suppress(OSError):
                self.entries.remove(name)
            return False
        return True

    def _put(self, portion: Mapping[str, bytes], *, own: bool) -> None:
        with as_store_error("store", self.entries.confined.path(next(iter(portion)))):
            book = self.entries.put(portion, own=own)
        self._fresh.update(dict.fromkeys(filter(is_packed, portion)))
        if self.upkeep.is_due(book, self.max_bytes) and not (self.defers_upkeep and self._packs()):
            with suppress(OSError):
                self.upkeep.run(self.max_bytes)


def is_there(config: Config) -> bool:
    """Has anything ever been stored where the settings say?"""
    try:
        os.stat(Confined(config.dir).base)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # whoever opens it says what is wrong
    return True


def open_store(config: Config, *, read_only: bool = False, defers_upkeep: bool = False) -> LocalStore:
    """Read-only if that is asked for, here or in the settings, or if this user may not write it. Raises StoreError."""
    read_only = read_only or config.readonly or faults.why_not_writable(Confined(config.dir)) is not None
    sealed = seal.read(config.key).within(config.namespace)
    return LocalStore(
        config.dir,
        max_bytes=config.max_size,
        read_only=read_only,
        umask=config.umask,
        seal=sealed,
        packs=config.packs,
        defers_upkeep=defers_upkeep,
    )


def open_to_write(config: Config) -> LocalStore:
    """Raises StoreError, also if this user may not write it."""
    refused = None if config.readonly else faults.why_not_writable(Confined(config.dir))
    if refused:
        raise StoreError(
            f"store '{config.dir}' cannot be written: {refused.strerror}",
            "run this where its file system is mounted to be written"
            if refused.errno == errno.EROFS
            else "correct its owner and permissions, or run this as its owner",
        )
    return open_store(config, defers_upkeep=True)
