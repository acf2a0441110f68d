"""Upkeep of a local store: count what it holds, evict what was not used for longest, sweep what dead processes left.

One process at a time does it (a lock that the others do not wait for), and only when the ledger says that
something is due. Eviction lists all entries, sorts them by the time of their last use, which is their mtime, and
removes until 90% of the limit are held: with 300,000 entries one to two seconds, once in 30,000 puts. Packs and what is
in none stand in one order, and leave as a whole. They are removed directory by directory.

A store that is too small for a build would lose each entry just before the next build asks for it, if the oldest went
first: builds go through their sources in the same order. So where all were used within RECENT seconds, the first ones
of these stay, up to STEADY of the limit, with the packs that they need, and what came behind them takes turns. What the
present compile has used goes last: whatever it takes, the same command finds it.

Where locks do not work, two processes may do it at once: nothing breaks, both subtract only what they removed.

Rejected: evicting in one random directory (ccache's way: no long pause, but in a small store the newest entry may go
first); a log of uses (a write for each hit, and nothing is gained over mtime).
"""

from __future__ import annotations

import errno
import os
import stat
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby
from typing import NamedTuple

from hipcache.base import locks
from hipcache.store import faults
from hipcache.store.confined import MOST_STATISTICS, Confined
from hipcache.store.layout import (
    ACTIONS,
    BLOBS,
    HISTORY,
    PACKS,
    STATISTICS,
    TMP,
    TOOLS,
    USE_STEP,
    charge,
    last_use,
    make,
    random_name,
)
from hipcache.store.ledger import Book, Ledger
from hipcache.store.packs import INDEX, Packs
from hipcache.store.work import leftovers, open_locks

KEEP = 0.9
STEADY = 0.6
# The longest builds take seven hours.
RECENT = 8 * 3600
COUNT_SECONDS = 24 * 3600
SWEEP_SECONDS = 3600
# Entries removed under one hold of the ledger's lock: about a millisecond for those who wait.
BATCH = 64
_DIRECTORIES = (ACTIONS, BLOBS, PACKS, HISTORY, TOOLS)
# Errors where a directory cannot be moved, and what is in it can be removed.
_FIXED = (errno.EXDEV, errno.EBUSY, *faults.ERRORS)


class StoreEntry(NamedTuple):
    """A file of the store; tuples of it sort by last use. `size`: bytes that it takes from the limit."""

    mtime_ns: int
    name: str
    size: int


def no_progress(entries: int) -> None:
    """Tell nobody how many entries have been removed."""


class Upkeep:
    """`clock` gives seconds since the epoch, as the mtimes of the entries. `on_evicted` is told how many entries were
    removed, and their bytes on disk; `on_counted`, when all were counted, what is held: bytes and entries. `since`:
    when the present compile began, in seconds of the epoch."""

    def __init__(self, confined: Confined, clock: Callable[[], float]) -> None:
        self._confined = confined
        self.ledger = Ledger(confined)
        self._clock = clock
        self.since = clock()
        self.on_evicted: Callable[[int, int], object] = lambda entries, size: None
        self.on_counted: Callable[[int, int], object] = lambda size, entries: None

    def is_due(self, book: Book, max_bytes: int) -> bool:
        """Comparisons with numbers that the put has read anyway, and the size of the index. `max_bytes` 0: no limit."""
        return 0 < self._room(max_bytes) < book.bytes or self._count_is_due(book) or self._sweep_is_due(book)

    def _count_is_due(self, book: Book) -> bool:
        return not book.counted_at or self._is_past(book.counted_at, COUNT_SECONDS)

    def _sweep_is_due(self, book: Book) -> bool:
        return self._is_past(book.swept_at, SWEEP_SECONDS)

    def _is_past(self, moment: int, seconds: int) -> bool:
        """Far in the future counts as past, a little does not: hosts that share a store disagree about the time."""
        return abs(self._clock() - moment) >= seconds

    def run(self, max_bytes: int) -> None:
        """Do what is due, unless another process is at it. Raises OSError.

        Others may put while this one is at it, find the lock taken and go on. So it looks again after it has
        released the lock, or the store would stay above its limit; it stops when there is nothing it can remove."""
        book, freed = self._numbers(), 1
        while freed and self.is_due(book, max_bytes):
            with locks.held(open_locks(self._confined), locks.UPKEEP, wait=False, patience=0) as waited:
                freed = 0 if waited is None else self._do_what_is_due(max_bytes)
            book = self._numbers()

    def _do_what_is_due(self, max_bytes: int) -> int:
        book = self._numbers()
        if self._sweep_is_due(book):
            self.sweep()
        if not (self._count_is_due(book) or 0 < self._room(max_bytes) < book.bytes):
            return 0
        entries, freed = self.count(), 0
        room = self._room(max_bytes)
        if 0 < room < self._numbers().bytes:
            turns, last = self.by_turn(entries, room)
            freed = self.evict(turns, int(room * KEEP)) + self.evict(last, room)
        self._tell()
        return freed

    def _tell(self) -> None:
        book = self._numbers()
        self.on_counted(book.bytes, book.entries)

    def _numbers(self) -> Book:
        return self.ledger.read() or Book()

    def book(self, *, count: bool) -> Book:
        """The ledger's numbers, or a count of all entries if it has none, which is noted if `count`."""
        book = self.ledger.read()
        if book is None and count:
            with suppress(OSError):
                self.count()
                book = self.ledger.read()
        if book is None:
            book = Book()
            for entry in self.entries():
                book.add(entry.size)
        return book

    def entries(self) -> Iterator[StoreEntry]:
        """Every entry, in no order. What vanishes meanwhile is left out, and what is no directory in the place of
        one."""
        for shard, status in self._confined.listing(HISTORY):
            if stat.S_ISDIR(status.st_mode):
                yield from self._entries_in(f"{HISTORY}/{shard}")
        for top in (ACTIONS, BLOBS, PACKS, TOOLS):
            yield from self._entries_in(top)

    def _entries_in(self, directory: str) -> Iterator[StoreEntry]:
        for last, status in self._confined.listing(directory):
            name = f"{directory}/{last}"
            if name != INDEX:
                yield StoreEntry(status.st_mtime_ns, name, charge(name, status.st_size))

    def beside(self) -> int:
        """Bytes of statistics, index, and what is worked on in tmp/. (An empty store has 50 KB more.)"""
        return self._index_bytes() + sum(self._bytes_in(name) for name in (STATISTICS, TMP))

    def _index_bytes(self) -> int:
        with suppress(OSError):
            return charge("", self._confined.status(INDEX).st_size)
        return 0

    def _room(self, max_bytes: int) -> int:
        """Bytes that entries may take of the limit; 0: any number."""
        return max(1, max_bytes - self._index_bytes()) if max_bytes else 0

    def _bytes_in(self, directory: str, depth: int = 3) -> int:
        with suppress(OSError):
            listing = self._confined.listing(directory)
            return sum(self._bytes_of(f"{directory}/{last}", status, depth) for last, status in listing)
        return 0

    def _bytes_of(self, name: str, status: os.stat_result, depth: int = 3) -> int:
        inside = self._bytes_in(name, depth - 1) if depth and stat.S_ISDIR(status.st_mode) else 0
        return charge("", status.st_size) + inside

    def count(self) -> list[StoreEntry]:
        """List all entries and put the sum right. Raises OSError."""
        with self.ledger.held() as book:
            bytes_before, entries_before = book.added_bytes, book.added_entries
        entries = list(self.entries())
        with self.ledger.held() as book:
            book.bytes = sum(entry.size for entry in entries) + book.added_bytes - bytes_before
            book.entries = len(entries) + book.added_entries - entries_before
            # 0 would mean "never" (a clock may start there); a ledger lost meanwhile has lost `added`, too.
            lost = book.added_bytes < bytes_before
            book.bytes, book.entries = max(0, book.bytes), max(0, book.entries)
            book.counted_at = 0 if lost else max(1, int(self._clock()))
            book.save()
            with suppress(OSError):  # a full disk: what it does not tell of is a miss
                Packs(self._confined).index()
        return entries

    def uses(self, entries: Iterable[StoreEntry]) -> dict[str, int]:
        """By name, the time of the last use (nanoseconds). A base is used with the packs that need it, and goes behind
        them. A pack without its base is of no use."""
        now, packs = self._clock(), Packs(self._confined)
        uses = {entry.name: last_use(entry.mtime_ns, now) for entry in entries}
        needing: list[tuple[str, str]] = []
        for pack in [name for name in uses if name.startswith(f"{PACKS}/")]:
            table = packs.table(pack)
            if not table.entries:
                uses[pack] = 0
            needing += [(pack, base) for base in table.bases & uses.keys()]
        # A base may need others. (None needs itself: such packs are as absent.)
        while early := [(pack, base) for pack, base in needing if uses[base] <= uses[pack]]:
            for pack, base in early:
                uses[base] = max(uses[base], uses[pack] + 1)
        return uses

    def by_turn(self, entries: Sequence[StoreEntry], max_bytes: int) -> tuple[list[StoreEntry], list[StoreEntry]]:
        """In the order in which they have to go so that KEEP of the limit are held, and those that go only where they
        are more than all of it."""
        uses, now = self.uses(entries), self._clock()
        ordered = sorted(entries, key=lambda entry: (uses[entry.name], entry))
        times = [uses[entry.name] for entry in ordered]
        recent, present = (bisect_left(times, moment * 1e9) for moment in (now - RECENT, self.since))
        old, last = ordered[:recent], ordered[max(recent, present) :]
        if sum(entry.size for entry in ordered[recent:]) <= max_bytes * KEEP:
            return old, last
        steady, others, room = list[StoreEntry](), list[StoreEntry](), max_bytes * STEADY
        for entry in ordered[recent:present]:
            room -= entry.size
            (others if room < 0 else steady).append(entry)
        needed = self._needed((*steady, *last))
        turns = sorted([*others, *steady[::-1]], key=lambda entry: needed[entry.name])
        return old + turns, last

    def _needed(self, entries: Iterable[StoreEntry]) -> Counter[str]:
        """How many of these need each pack: a base of a base is needed by more than that."""
        packs = Packs(self._confined)
        names = (entry.name for entry in entries if entry.name.startswith(f"{PACKS}/"))
        return Counter(base for name in names for base in packs.needs(name))

    def collect(
        self,
        limit: int | None,
        unused_for: float | None,
        keeping: Callable[[], Container[str]] | None,
        progress: Callable[[int], object],
        *,
        dry_run: bool,
    ) -> int:
        """See `LocalStore.collect`. Raises OSError."""
        entries = list(self.entries()) if dry_run else self.count()
        kept = keeping() if keeping else None
        uses = self.uses(entries)
        room = self._room(limit) if limit else limit
        # Those that were surely not used for so long (a clock may have been ahead).
        old = -1.0 if unused_for is None else (self._clock() - unused_for - USE_STEP) * 1e9

        def goes(entry: StoreEntry) -> bool:
            unused = max(uses[entry.name], entry.mtime_ns) < old
            return unused or (kept is not None and entry.name not in kept)

        needed = self._needed(entry for entry in entries if not goes(entry))
        first = [entry for entry in entries if goes(entry) and entry.name not in needed]
        gone = frozenset(first)
        rest = sorted((entry for entry in entries if entry not in gone), key=lambda entry: (uses[entry.name], entry))
        if dry_run:
            going = first + ([] if room is None else _over(rest, sum(entry.size for entry in rest) - room))
            progress(len(going))
            return sum(entry.size for entry in going)
        freed = self.evict(first, 0, progress=progress)
        freed += 0 if room is None else self.evict(rest, room, progress=progress)
        self._tell()
        return freed

    def evict(
        self, entries: Sequence[StoreEntry], down_to: int, *, progress: Callable[[int], object] = no_progress
    ) -> int:
        """Remove `entries` from the first on until `down_to` bytes are held; the bytes freed. What was used or replaced
        after it was listed stays. `progress` is told the number of those removed so far. Raises OSError."""
        with self.ledger.held() as book:
            over = book.bytes - down_to
        going = _over(entries, over)
        # A base behind the packs that need it, if this is interrupted.
        needed = self._needed(going)
        going.sort(key=lambda entry: (needed[entry.name], entry.name))
        freed = removed = 0
        for start in range(0, len(going), BATCH):
            with self.ledger.held() as book:
                for directory, group in groupby(
                    going[start : start + BATCH], lambda entry: os.path.dirname(entry.name)
                ):
                    entries_there = {os.path.basename(entry.name): entry for entry in group}
                    times = {last: entry.mtime_ns for last, entry in entries_there.items()}
                    with suppress(OSError):
                        for last in self._confined.discard_unchanged(directory, times):
                            book.subtract(entries_there[last].size)
                            freed += entries_there[last].size
                            removed += 1
                book.save()
            progress(min(start + BATCH, len(going)))
        self._remove_empty(going)
        if removed:
            self.on_evicted(removed, freed)
        return freed

    def _remove_empty(self, gone: Iterable[StoreEntry]) -> None:
        """The directories of objects that have no history any more."""
        for directory in dict.fromkeys(os.path.dirname(entry.name) for entry in gone):
            if directory.startswith(f"{HISTORY}/"):
                with suppress(OSError):
                    self._confined.rmdir(directory)

    def clear(self, progress: Callable[[int], object] = no_progress) -> int:
        """Remove every entry; the bytes freed. `progress` as for `evict`. Raises OSError."""
        freed = clear(self._confined, self.ledger, progress)
        if self.ledger.read() is None:
            self.count()
        self._tell()
        return freed

    def sweep(self, *, dry_run: bool = False) -> int:
        """Remove what dead processes left; the bytes freed. `dry_run`: remove nothing. Raises OSError."""
        now, freed = self._clock(), 0
        for name, status in leftovers(self._confined, now):
            freed += self._bytes_of(name, status)
            if not dry_run:
                self._confined.remove(name)
        if dry_run:
            return freed
        for last, status in self._confined.listing(STATISTICS):
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_STATISTICS:
                self._confined.remove(f"{STATISTICS}/{last}")
        with self.ledger.held() as book:
            book.swept_at = max(1, int(now))
            book.save()
        return freed


def _over(entries: Iterable[StoreEntry], over: int) -> list[StoreEntry]:
    """Those from the first on that have to go until so many bytes less are held."""
    going: list[StoreEntry] = []
    for entry in entries:
        if over <= 0:
            break
        going.append(entry)
        over -= entry.size
    return going


def clear(confined: Confined, ledger: Ledger, progress: Callable[[int], object]) -> int:
    """Remove every entry; the bytes freed. The directories are moved away, with no lock but the ledger's for that
    moment, and removed afterwards. What is in one that cannot be moved (a mount, a lower layer of an overlay) is
    removed there: entries that others put meanwhile may be gone, too, and the ledger is left to be counted. `progress`
    is told how many are removed. Raises OSError."""
    going: list[str] = []
    fixed: list[str] = []
    sizes: list[int] = []

    def each(size: int) -> None:
        sizes.append(size)
        progress(len(sizes))

    try:
        with ledger.held() as book:
            for directory in _DIRECTORIES:
                gone = f"{TMP}/gone-{random_name()}"
                try:
                    confined.rename(directory, gone)
                    going.append(gone)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if error.errno not in _FIXED:
                        raise
                    fixed.append(directory)
            with suppress(OSError):  # a full disk has room for them below
                make(confined)
            book.bytes = book.entries = 0
            book.counted_at = 0 if fixed else book.counted_at
            book.save()
    finally:
        for directory in fixed:
            going += [f"{directory}/{last}" for last, _ in confined.listing(directory)]
        for gone in going:
            confined.remove(gone, each)
    make(confined)
    return sum(charge("", size) for size in sizes)
