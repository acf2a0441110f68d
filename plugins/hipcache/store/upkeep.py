"""Upkeep of a local store: count what it holds, evict what was not used for longest, sweep what dead processes left.

One process at a time does it (a lock that the others do not wait for), and only when the ledger says that
something is due. Eviction lists all entries, sorts them by the time of their last use, which is their mtime, and
removes until 90% of the bound are held: with 300,000 entries one to two seconds, once in 30,000 puts. Actions and blobs
stand in one order; a hit uses the action and its blobs within milliseconds, so they also leave together.

Where locks do not work, two processes may do it at once: nothing breaks, both subtract only what they removed.

Rejected: evicting in one random directory (ccache's way: no long pause, but in a small store the newest entry may go
first); a log of uses (a write for each hit, and nothing is gained over mtime).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from hipcache.store import locks, scratch
from hipcache.store.layout import Layout, charge, discard, listing
from hipcache.store.ledger import Book, Ledger

KEEP = 0.9
COUNT_SECONDS = 24 * 3600
SWEEP_SECONDS = 3600
# Entries removed under one hold of the ledger's lock: about a millisecond for those who wait.
BATCH = 64


class Entry(NamedTuple):
    """A file of the store; tuples of it sort by last use."""

    mtime_ns: int
    path: str
    size: int


class Upkeep:
    """`clock` gives seconds since the epoch, as the mtimes of the entries."""

    def __init__(self, layout: Layout, ledger: Ledger, clock: Callable[[], float]) -> None:
        self._layout = layout
        self._ledger = ledger
        self._clock = clock

    def is_due(self, book: Book, max_bytes: int) -> bool:
        """Comparisons with numbers that the put has read anyway. `max_bytes` 0: no bound."""
        return 0 < max_bytes < book.bytes or self._count_is_due(book) or self._sweep_is_due(book)

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
        released the lock, or the store would stay above its bound; it stops when there is nothing it can remove."""
        book, freed = self._numbers(), 1
        while freed and self.is_due(book, max_bytes):
            with locks.held(locks.open_file(self._layout.locks), locks.UPKEEP, wait=False) as waited:
                freed = 0 if waited is None else self._do_what_is_due(max_bytes)
            book = self._numbers()

    def _do_what_is_due(self, max_bytes: int) -> int:
        book = self._numbers()
        if self._sweep_is_due(book):
            self.sweep()
        if not (self._count_is_due(book) or 0 < max_bytes < book.bytes):
            return 0
        entries = self.count()
        if not 0 < max_bytes < self._numbers().bytes:
            return 0
        return self.evict(self.by_last_use(entries), int(max_bytes * KEEP))

    def _numbers(self) -> Book:
        return self._ledger.read() or Book()

    def entries(self) -> Iterator[Entry]:
        """Every entry, in no order. What vanishes meanwhile is left out."""
        for directory in (self._layout.actions, self._layout.blobs):
            for shard in listing(directory):
                for found in listing(shard.path):
                    with suppress(OSError):
                        status = found.stat(follow_symlinks=False)
                        yield Entry(status.st_mtime_ns, found.path, charge(status.st_size))

    def count(self) -> list[Entry]:
        """List all entries and put the sum right. Raises OSError."""
        with self._ledger.held() as book:
            bytes_before, entries_before = book.added_bytes, book.added_entries
        entries = list(self.entries())
        with self._ledger.held() as book:
            book.bytes = sum(entry.size for entry in entries) + book.added_bytes - bytes_before
            book.entries = len(entries) + book.added_entries - entries_before
            # 0 would mean "never" (a clock may start there); a ledger lost meanwhile has lost `added`, too.
            lost = book.added_bytes < bytes_before
            book.bytes, book.entries = max(0, book.bytes), max(0, book.entries)
            book.counted_at = 0 if lost else max(1, int(self._clock()))
            book.save()
        return entries

    def by_last_use(self, entries: Iterable[Entry]) -> list[Entry]:
        """The oldest first. Those far in the future come before them: a clock was wrong when they were used, and not
        since, and they would stay for ever."""
        future = (self._clock() + COUNT_SECONDS) * 1e9
        return sorted(entries, key=lambda entry: (entry.mtime_ns <= future, entry))

    def evict(self, entries: Sequence[Entry], down_to: int, *, spare_used: bool = True) -> int:
        """Remove `entries` from the first on until `down_to` bytes are held (-1: all of them); the bytes freed.

        `spare_used`: leave what was used or replaced after it was listed. Raises OSError."""
        freed = 0
        for start in range(0, len(entries), BATCH):
            with self._ledger.held() as book:
                for entry in entries[start : start + BATCH]:
                    if book.bytes <= down_to:
                        break
                    with suppress(OSError):
                        status = os.lstat(entry.path)
                        if spare_used and status.st_mtime_ns != entry.mtime_ns:
                            continue
                        discard(entry.path)
                        book.subtract(charge(status.st_size))
                        freed += charge(status.st_size)
                book.save()
                if book.bytes <= down_to:
                    break
        return freed

    def sweep(self) -> int:
        """Remove what dead processes left; the bytes freed. Raises OSError."""
        now = self._clock()
        freed = scratch.sweep(self._layout.tmp, now)
        with self._ledger.held() as book:
            book.swept_at = max(1, int(now))
            book.save()
        return freed
