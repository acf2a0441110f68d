"""The ledger: how many bytes and entries a local store holds, without looking.

A put must know whether the limit is exceeded, and listing 300,000 files to learn it takes 1.5 seconds. So the sum is
kept in one file of 64 bytes, changed under a lock::

    magic          8 bytes   "hcL1" 0d 0a 1a 00
    bytes, entries           held now (whole blocks, see layout.charge)
    added_bytes, added_entries    ever added, but for what took the place of another entry; removals do not reduce it
    counted_at     seconds   when all entries were last counted; 0: the sum is not to be trusted, count
    swept_at       seconds   when leftovers of dead processes were last removed
    check          8 bytes   BLAKE3 of all the above, cut
    (six integers of 64 bits, little endian)

The order of steps decides in which direction it goes wrong when a process is killed between two of them: a put adds
before it renames, a removal unlinks before it subtracts. So the sum can only be too high, never too low; too high
means that the limit is met too early, and that begins with a count. The rename happens under the ledger's lock:
whenever the lock is free, the entries on disk are those in the sum.

Counting does not hold the lock (it can take a minute on a cold NFS). It remembers `added` before and adds the
difference after: what was put meanwhile is counted at least once. A few entries counted twice heal with the next
count, which is at most a day away.

Rejected: a counter file for each of the 256 directories, as ccache has (256 reads for one sum); one appended line
for each put (somebody must fold the lines, and a torn line loses counts).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from hipcache.base import locks
from hipcache.base.hashing import blake3
from hipcache.store.confined import Confined
from hipcache.store.layout import LEDGER

MAGIC = b"hcL1\r\n\x1a\0"
_RECORD = struct.Struct("<8s6Q")
_CHECK_BYTES = 8
_LOCK = 0
_MOST = 1 << 20  # bytes of the file, whatever stands behind the record
# Seconds to wait for the lock, which is held for a rename. Each time that it does not come free they are halved.
_PATIENCE = 1.0
_PAUSE = 0.002


class Book:
    """The numbers of the ledger at one moment; `save` is for the one who holds the lock."""

    __slots__ = ("_fd", "added_bytes", "added_entries", "bytes", "counted_at", "entries", "swept_at")

    def __init__(self, fd: int = -1, numbers: tuple[int, ...] = (0,) * 6) -> None:
        self._fd = fd
        self.bytes, self.entries, self.added_bytes, self.added_entries, self.counted_at, self.swept_at = numbers

    def add(self, size: int) -> None:
        self.bytes += size
        self.entries += 1
        self.added_bytes += size
        self.added_entries += 1

    def subtract(self, size: int) -> None:
        self.bytes = max(0, self.bytes - size)
        self.entries = max(0, self.entries - 1)

    def replace(self, old: int, new: int) -> None:
        """An entry of `new` bytes, which was added, took the place of one of `old` bytes. A count that goes on
        meanwhile has seen one of them: it must not add the other."""
        self.subtract(old)
        self.added_bytes -= min(old, new)
        self.added_entries -= 1

    def save(self) -> None:
        """Raises OSError."""
        record = _RECORD.pack(
            MAGIC, self.bytes, self.entries, self.added_bytes, self.added_entries, self.counted_at, self.swept_at
        )
        os.pwrite(self._fd, record + blake3(record).digest(_CHECK_BYTES), 0)


class Ledger:
    """The file. Where locks do not work, or the lock does not come free (its holder is stopped, or holds it against
    us), it is kept without them: counts may get lost until the next count."""

    def __init__(self, confined: Confined) -> None:
        self._confined = confined
        self._patience = _PATIENCE

    @contextmanager
    def held(self) -> Iterator[Book]:
        """Hold the lock and give the numbers, zeros (with `counted_at` 0) if there are none. Raises OSError."""
        try:
            fd = self._confined.keep(LEDGER, _MOST, lock=True)
        except PermissionError:  # it is another user's; the next count puts the sum right
            self._confined.discard(LEDGER)
            fd = self._confined.keep(LEDGER, _MOST, lock=True)
        with fd:
            self._wait(fd, shared=False)
            try:
                yield Book(fd, _read(fd) or (0,) * 6)
            finally:
                locks.unlock(fd, _LOCK)

    def read(self) -> Book | None:
        """The numbers, or None if there are none to be trusted; also from a read-only disk. Raises nothing."""
        try:
            fd = self._confined.open(LEDGER, _MOST)
        except OSError:
            return None
        try:
            self._wait(fd, shared=True)
            numbers = _read(fd)
        finally:
            locks.unlock(fd, _LOCK)
            os.close(fd)
        book = Book(-1, numbers) if numbers else None
        return book if book and book.counted_at else None

    def _wait(self, fd: int, *, shared: bool) -> None:
        try:
            locks.wait_lock(fd, _LOCK, shared=shared, patience=self._patience, longest_pause=_PAUSE)
        except TimeoutError:
            self._patience /= 2
        except OSError:
            pass  # there are no locks here


def _read(fd: int) -> tuple[int, ...] | None:
    try:
        content = os.pread(fd, _RECORD.size + _CHECK_BYTES + 1, 0)
    except OSError:
        return None
    record, check = content[: _RECORD.size], content[_RECORD.size :]
    if len(record) != _RECORD.size or check != blake3(record).digest(_CHECK_BYTES) or not record.startswith(MAGIC):
        return None
    return tuple(int(number) for number in _RECORD.unpack(record)[1:])
