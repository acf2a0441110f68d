"""One build in figures, for a report: its compiles, by architecture, by target or directory, by cause of a miss."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from hipcache.base.values import asdict, dataclass, replace
from hipcache.report import statistics
from hipcache.report.causes import MORE_FILES, is_file, rank
from hipcache.report.history import Record
from hipcache.report.outcome import HIT, MISS, PARTIAL, UnitOutcome
from hipcache.report.statistics import Statistics
from hipcache.report.stats_log import Compile
from hipcache.report.targets import by_place
from hipcache.store.confined import Confined

# A cause that goes on differently for each object: what stands before this is the cause.
_DETAIL = "; "
_MOST_FILES = 3
_PAUSE = 600.0  # seconds
# Seconds that the times in a log are rounded to.
_CLOCK = 1e-5


@dataclass(frozen=True)
class Group:
    """Compiles that belong together. `served`: all from the cache; `some`: in part; `left`: passed through, failed."""

    name: str
    served: int
    some: int
    compiled: int
    left: int
    seconds: float

    @property
    def total(self) -> int:
        return self.served + self.some + self.compiled + self.left


@dataclass(frozen=True)
class Cause:
    """Why units missed: how many of them, of how many objects, and what their compiles took."""

    name: str
    units: int
    objects: tuple[str, ...]
    seconds: float

    def as_json(self) -> dict[str, object]:
        return {"cause": self.name, "units": self.units, "objects": list(self.objects)}


def of_history(records: Iterable[Record]) -> list[Compile]:
    """The last compile of each object."""
    return sorted(map(_of_record, records), key=lambda compile: compile.began)


def _of_record(record: Record) -> Compile:
    marks = [f"{unit.name} {'+' if unit.hit else '-'}.." for unit in record.units]
    counted = "\t".join([record.outcome, record.reason, "0", *marks])
    units = tuple(UnitOutcome(u.name, u.hit, u.frontend, u.backend, u.why, u.seconds) for u in record.units)
    return Compile(
        record.when - record.seconds,
        record.seconds,
        0,
        record.directory,
        record.object,
        False,
        (counted,),
        units,
        record.detail,
    )


def groups(compiles: Iterable[Compile], name: Callable[[str], str] = by_place) -> list[Group]:
    """The groups by target or directory, those with the most compiler time first."""
    found: dict[str, list[Compile]] = {}
    for entry in compiles:
        found.setdefault(name(entry.object), []).append(entry)
    made = []
    for key, members in found.items():
        ends = [member.outcome for member in members]
        served, some, compiled = (ends.count(end) for end in (HIT, PARTIAL, MISS))
        seconds = sum(member.seconds for member in members)
        made.append(Group(key, served, some, compiled, len(ends) - served - some - compiled, seconds))
    return sorted(made, key=lambda group: (-group.seconds, -group.total, group.name))


def causes(compiles: Iterable[Compile]) -> list[Cause]:
    """By what can be done about them, then those of the most units first. A unit with several causes counts for each of
    them."""
    found: dict[str, list[tuple[str, float]]] = {}
    for entry in compiles:
        for unit in entry.units:
            for why in dict.fromkeys(text.partition(_DETAIL)[0] for text in unit.why):
                if not why.startswith(MORE_FILES):
                    found.setdefault(why, []).append((entry.object, unit.seconds))
    made = [
        Cause(name, len(units), tuple(sorted({path for path, _ in units})), sum(took for _, took in units))
        for name, units in found.items()
    ]
    return sorted(made, key=lambda cause: (rank(cause.name), -cause.units, cause.name))


def summarized(causes: Sequence[Cause]) -> list[Cause]:
    """The same for people: files that made the same units miss are one cause, and so are those behind the first few."""
    alike: dict[object, list[Cause]] = {}
    for cause in causes:
        alike.setdefault((cause.units, cause.objects) if is_file(cause.name) else cause, []).append(cause)
    shown, rest = list[Cause](), list[Cause]()
    for first, *others in alike.values():
        few = not is_file(first.name) or sum(is_file(cause.name) for cause in shown) < _MOST_FILES
        name = f"{first.name}, and others" if others else first.name  # a unit names the first of its files alone
        (shown if few else rest).append(replace(first, name=name))
    if rest:
        objects = tuple(sorted({path for cause in rest for path in cause.objects}))
        seconds = sum(cause.seconds for cause in rest)
        at = max(place for place, cause in enumerate(shown, 1) if is_file(cause.name))
        shown.insert(at, Cause(f"{len(rest)} more such files", sum(cause.units for cause in rest), objects, seconds))
    return shown


def elsewhere(records: Iterable[Record], *, other_files: bool = True) -> tuple[str, str] | None:
    """Two directories in which the same commands made the same objects, the newer one first, of which that one was not
    served whole: of `other_files`, in two checkouts without a base directory, or of the same. Commands are compared
    without the directories of the paths in them. (Back ends are shared: their keys have no paths.)"""
    found: dict[tuple[str, ...], Record] = {}
    for entry in sorted(records, key=lambda entry: entry.when):
        if entry.object and entry.outcome in (HIT, PARTIAL, MISS):
            key = (os.path.relpath(entry.object, entry.directory), *map(os.path.basename, entry.command))
            before = found.get(key)
            others = before and _sources(before).isdisjoint(_sources(entry))
            if before and entry.outcome != HIT and others == other_files:
                return entry.directory, before.directory
            found[key] = entry
    return None


def _sources(record: Record) -> set[str]:
    """The files that the command names, apart from options and what it writes below its directory."""
    paths = (os.path.join(record.directory, word) for word in record.command[1:] if not word.startswith("-"))
    made = os.path.splitext(record.object)[0]
    return {path for path in map(os.path.normpath, paths) if os.path.splitext(path)[1] and not path.startswith(made)}


def slowest(compiles: Iterable[Compile], most: int) -> list[tuple[str, UnitOutcome]]:
    """(object, unit) of those that were compiled and took longest."""
    units = [(entry.object, unit) for entry in compiles for unit in entry.units if unit.why and unit.seconds]
    return sorted(units, key=lambda pair: (-pair[1].seconds, pair[0]))[:most]


def lanes(compiles: Sequence[Compile]) -> list[tuple[int, Compile]]:
    """(number of the lane, compile), so that none overlaps another in its lane; by begin."""
    free: list[float] = []
    placed = []
    for entry in sorted(compiles, key=lambda entry: entry.began):
        lane = next((number for number, end in enumerate(free) if end <= entry.began + _CLOCK), len(free))
        free[lane : lane + 1] = [entry.began + entry.seconds]
        placed.append((lane, entry))
    return placed


def last_build(compiles: Iterable[Compile]) -> list[Compile]:
    """Those since the last pause, which is longer than builds have without a compile."""
    made, end = list[Compile](), 0.0
    for compile in sorted(compiles, key=lambda compile: compile.began):
        if compile.began - end > _PAUSE:
            made = []
        made.append(compile)
        end = max(end, compile.began + compile.seconds)
    return made


def chrome_trace(compiles: Sequence[Compile], target: Callable[[str], str] = by_place) -> dict[str, object]:
    """For chrome://tracing, Perfetto and speedscope: complete events in microseconds (Trace Event Format)."""
    begin = min((entry.began for entry in compiles), default=0.0)
    return {
        "traceEvents": [
            {
                "name": os.path.basename(entry.object) or "(not known)",
                "cat": entry.outcome,
                "ph": "X",
                "ts": round((entry.began - begin) * 1e6),
                "dur": round(entry.seconds * 1e6),
                "pid": 1,
                "tid": lane,
                "args": {"object": entry.object, "outcome": entry.outcome, "target": target(entry.object)},
            }
            for lane, entry in lanes(compiles)
        ],
        "displayTimeUnit": "ms",
    }


_FILE = "builds"
MOST = 200
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


def recorded(
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
        [[cause.name[:_LONGEST], cause.units] for cause in causes[:_MOST_CAUSES]],
    )


def save(root: Path, umask: int | None, build: RecordedBuild) -> bool:
    """False if it could not be written: only the list of builds lacks it."""
    texts = [json.dumps(asdict(known)).encode() for known in [*last_builds(root), build][-MOST:]]
    return statistics.write_lines(Confined(root, umask), _FILE, texts)


def last_builds(root: Path) -> list[RecordedBuild]:
    """All that are known, the oldest first."""
    found = []
    for text in statistics.read_lines(Confined(root), _FILE):
        with suppress(ValueError, TypeError):
            found.append(RecordedBuild(**json.loads(text)))
    return found
