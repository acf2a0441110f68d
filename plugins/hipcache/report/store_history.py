"""The store over time: what it held whenever all of it was counted, and what compiles had come to by then.

Whoever counts the entries of a store (once a day, when its limit is met, in `gc` and `clear`) adds one line to
`<HIPCACHE_DIR>/v2/statistics/sizes`. No hit and no other compile does anything for it; the statistics that are read for
a line take up to 0.3 s, just before their log is folded.

    sizes  = *( LF crc TAB seconds TAB bytes TAB entries TAB limit 5( TAB number ) LF )
    number = compiles that were hits, partial hits, misses; entries evicted, and their bytes: all of them so far
    crc    = 8 hexadecimal digits: CRC-32 of what follows, to the end of the line

The file is written anew each time, whole, by rename: of two processes that do so at once one line may be lost, and a
line that is damaged is skipped. A line takes the place of the one before it if that is not five minutes old. From 700
lines on (some 60 KiB) the older half loses every second one, so the file tells of years in ever larger steps.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hipcache.base.values import dataclass
from hipcache.report import statistics
from hipcache.report.outcome import HIT, MISS, PARTIAL
from hipcache.store import StoreSize
from hipcache.store.confined import Confined

_FILE = "sizes"
MOST = 700
STEP = 300


@dataclass(frozen=True)
class Point:
    """`bytes`, `entries` and `limit` (0: none) of the store at `seconds` of the epoch. Since the statistics began:
    compiles by how they ended, and entries evicted."""

    seconds: int
    bytes: int
    entries: int
    limit: int
    hits: int
    partial: int
    misses: int
    evicted: int
    evicted_bytes: int

    @property
    def numbers(self) -> tuple[int, ...]:
        return (
            *(self.seconds, self.bytes, self.entries, self.limit),
            *(self.hits, self.partial, self.misses, self.evicted, self.evicted_bytes),
        )


def _point(root: Path, size: StoreSize, now: float) -> Point:
    numbers = statistics.read(root)
    ends, gone = numbers.compiles, numbers.counted[statistics.EVICTED]
    hits = (ends[HIT], ends[PARTIAL], ends[MISS])
    return Point(int(now), size.bytes, size.entries, size.max_bytes, *hits, gone["entries"], gone["bytes"])


def record(root: Path, umask: int | None, size: StoreSize, clock: Callable[[], float]) -> bool:
    """Note what the store at `root` holds now. False if that could not be written."""
    store, now = Confined(root, umask), clock()
    points = _points(store)
    if points and abs(now - points[-1].seconds) < STEP:
        points.pop()
    points.append(_point(root, size, now))
    if len(points) > MOST:
        half = len(points) // 2
        points[:half] = points[:half:2]
    lines = (b"\t".join(b"%d" % number for number in point.numbers) for point in points)
    return statistics.write_lines(store, _FILE, lines)


def read(root: Path, now: float) -> list[Point]:
    """All that is known, the oldest first, without what a clock that was ahead has left."""
    found = (point for point in _points(Confined(root)) if point.seconds <= now)
    return sorted(found, key=lambda point: point.seconds)


def up_to_now(root: Path, size: StoreSize, now: float) -> list[Point]:
    """And what it holds now."""
    return [*read(root, now), _point(root, size, now)]


def _points(store: Confined) -> list[Point]:
    found = []
    for text in statistics.read_lines(store, _FILE):
        with suppress(ValueError, TypeError):
            numbers = [int(number) for number in text.split(b"\t")]
            if min(numbers) >= 0 and max(numbers) < 1 << 63:
                found.append(Point(*numbers))
    return found
