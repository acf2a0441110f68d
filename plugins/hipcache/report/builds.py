"""The last builds of `hipcache run`: one line for each in `<HIPCACHE_DIR>/v2/statistics/builds`.

    builds = *( LF crc TAB json LF )
    json   = the fields of `RecordedBuild`
    crc    = 8 hexadecimal digits: CRC-32 of what follows, to the end of the line

The file is written anew each time, whole, by rename, as that of `store_history`. It keeps the last 200 builds (some
60 KiB).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from hipcache.disk.confined import Confined
from hipcache.report import statistics, sums
from hipcache.report.build import Cause
from hipcache.report.outcome import HIT
from hipcache.report.sums import Statistics
from hipcache.values import asdict, dataclass

_FILE = "statistics/builds"
MOST = 200
_MOST_BYTES = 1 << 20
_MOST_CAUSES, _LONGEST = 5, 200


@dataclass(frozen=True)
class RecordedBuild:
    """`when`: its end, seconds of the epoch; `seconds`: wall-clock time; `compiles`: by outcome; `units`: of each
    architecture, of the host and of links, its hits and misses; `causes`: the first ones, with the units of each."""

    when: float
    seconds: float
    command: str
    label: str
    compiles: dict[str, int]
    units: dict[str, list[int]]
    saved: float
    causes: list[list[str | int]]

    @property
    def hits(self) -> int:
        return self.compiles.get(HIT, 0)


def of(
    numbers: Statistics, causes: Sequence[Cause], when: float, seconds: float, command: str, label: str
) -> RecordedBuild:
    return RecordedBuild(
        round(when, 3),
        round(seconds, 3),
        command[:_LONGEST],
        label[:_LONGEST],
        {end: count for end, count in numbers.compiles.items() if count},
        {name: [tally.hits, tally.misses] for name, tally in numbers.units.items()},
        round(numbers.seconds_saved, 3),
        [[one.name[:_LONGEST], one.units] for one in causes[:_MOST_CAUSES]],
    )


def record(root: Path, umask: int | None, build: RecordedBuild) -> bool:
    """False if it could not be written: only the list of builds lacks it."""
    store = Confined(root, umask)
    try:
        store.make(("statistics",))
        lines = [sums.line(json.dumps(asdict(one)).encode()) for one in [*read(root), build][-MOST:]]
        statistics.write_whole(store, "builds", b"".join(lines))
    except OSError:
        return False
    return True


def read(root: Path) -> list[RecordedBuild]:
    """All that are known, the oldest first."""
    try:
        return list(_parsed(Confined(root).read(_FILE, _MOST_BYTES)))
    except OSError:
        return []


def _parsed(content: bytes) -> Iterator[RecordedBuild]:
    for text in sums.lines(content):
        with suppress(ValueError, TypeError):
            yield RecordedBuild(**json.loads(text))
