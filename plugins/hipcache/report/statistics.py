"""The statistics of all compiles of all processes: one short line for each compile.

Everything is in `<HIPCACHE_DIR>/v2/statistics/`:

    lock        empty; held shared to append or read, exclusively to fold. Its modification time is that of the
                first compile.
    log         one line for each compile, appended with one write to a file opened with O_APPEND
    log.<name>  a log that is being folded, or the one line of a process that found the lock taken
    totals      the sums of all the logs folded so far, replaced by rename
    sizes       the store over time (store_history.py)
    builds      the last builds (build.py)

    log    = *( LF crc TAB outcome TAB reason TAB milliseconds *( TAB unit ) LF )
    unit   = name SP hit frontend backend          ; each of them "+" hit, "-" miss, "." none
                                                   ; also "took MICROSECONDS ...", "configure check ..."
                                                   ; and "direct ..."
    totals = "hipcache statistics 1" SP crc LF *( number TAB key LF )
    crc    = 8 hexadecimal digits: CRC-32 of what follows, to the end of the line or of the file

A record begins with a line feed, so a truncated one does not damage the next. Damaged lines are skipped, and damaged
totals count as none: statistics never make a compile or a report fail.

When `log` reaches 1 MiB (some 10,000 compiles), the process that appended last folds it: under the lock it renames
`log` to a unique name, writes new totals that include its sums and list that name, and removes it. If it is killed in
between, the file is still there, and the totals say whether it is counted. No compile waits for the lock: a process
that finds it taken writes a `log.<name>` (completely, by rename) instead. Many such files are folded, too.

Rejected: a counter file rewritten at each compile (each waits for all others), SQLite (its import takes longer
than a whole hit), one file for each process (a build of 10,000 objects has 10,000 of them).
"""

from __future__ import annotations

import binascii
import contextlib
import fcntl
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hipcache.base import features
from hipcache.base.errors import StoreError
from hipcache.base.files import Descriptor
from hipcache.base.values import asdict, dataclass, replace
from hipcache.report.outcome import CACHEABLE, HOST, LINK, OUTCOMES, PASSED_THROUGH, CompileOutcome, is_check
from hipcache.store import StoreSize
from hipcache.store.confined import MOST_STATISTICS, Confined

# Of the form of `as_json`: another one where a field goes or means something else, not where one comes.
VERSION = 2
_MARKS = {True: "+", False: "-", None: "."}
_COUNTED = {"+": "hits", "-": "misses"}
# First fields of lines that tell of no compile, each the name of a `CounterGroup`.
VERIFIED, LOCKED, PREAMBLES, EVICTED = "verified", "locked", "preambles", "evicted"
# Fields behind the units of a line, in their form, so that older versions pass over them: the microseconds that it
# took, the mark of a configure check, which counts nowhere else, and that of a direct hit. `native/direct/statistics.c`
# writes the first.
_TOOK, _CHECK, _DIRECT, _NO_MARKS = "took ", "configure check", "direct", "..."


class CounterGroup(NamedTuple):
    """Counters of one owner; a new counter is declared here or at the door of its feature (`features`), and nowhere
    else.

    name      first field of their lines in the log; "NAME COUNTER" is a counter's key in the totals
    field     of `stats --json`: an object of the counters, or a number if `counters` is empty
    counters  their names, in the order of that object
    text      the line of `hipcache stats`, shown if a counter is not zero: as of `cli.screen.sentence`
    meaning   of the field, in docs/statistics.md
    open      a field of counters that are named as they are counted: "NAME PREFIX..." is the key in the totals
    prefix    of such a name; not in the field
    each      for units that are named as they are counted: the counters of each, "NAME UNIT COUNTER" in the totals
    """

    name: str
    field: str
    counters: tuple[str, ...]
    text: str
    meaning: str
    open: str = ""
    prefix: str = ""
    each: tuple[str, ...] = ()

    def values(self, counts: Mapping[str, int]) -> dict[str, Any]:
        """The fields of `stats --json`."""
        named = {name: counts.get(f"{self.name} {name}", 0) for name in self.counters}
        found: dict[str, Any] = {self.field: named if self.counters else counts.get(self.name, 0)}
        start = f"{self.name} {self.prefix}"
        rest = {key.removeprefix(start): count for key, count in counts.items() if key.startswith(start)}
        if self.each:
            units = sorted({unit for unit in (name.rpartition(" ")[0] for name in rest) if unit})
            found[self.open] = {unit: {name: rest.get(f"{unit} {name}", 0) for name in self.each} for unit in units}
        elif self.open:
            found[self.open] = rest
        return found

    def named(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The counts by their names in `text`."""
        mine = {name: fields[name] for name in (self.field, self.open) if name}
        return mine | (mine[self.field] if self.counters else {})


@cache
def groups() -> tuple[CounterGroup, ...]:
    locked = CounterGroup(
        LOCKED, "lock_timeouts", (), "lock timeouts  {lock_timeouts}", "locks that stayed busy too long"
    )
    evicted = CounterGroup(
        EVICTED,
        "evicted",
        ("entries", "bytes"),
        "evicted  {entries:entry} ({bytes:size})",
        "entries that the size limit or `hipcache gc` removed, and their `bytes`",
    )
    return (locked, *(CounterGroup(**fields) for fields in features.added("COUNTERS")), evicted)


@dataclass(frozen=True)
class Tally:
    """Hits and misses of one unit or one kind of job."""

    hits: int = 0
    misses: int = 0


@dataclass(frozen=True)
class Statistics:
    """The sums since `since` (seconds of the epoch; None: never). `direct`: hits that were direct ones; `not_kept`:
    compiles not stored, by reason; `counted`: the fields of all `groups`; `average_seconds`: wall time of a compile,
    of as many as `timed` says, and `checks`: configure checks, which count nowhere else, all by outcome."""

    compiles: Mapping[str, int]
    units: Mapping[str, Tally]
    frontend: Tally
    backend: Tally
    passed_through: Mapping[str, int]
    seconds_saved: float
    since: float | None
    not_kept: Mapping[str, int]
    counted: Mapping[str, Any]
    direct: int
    average_seconds: Mapping[str, float]
    timed: Mapping[str, int]
    checks: Mapping[str, int]

    @property
    def cacheable(self) -> int:
        """Compiles that were served or could have been: neither passed through nor failed."""
        return sum(self.compiles[outcome] for outcome in CACHEABLE)

    @property
    def unit_hits(self) -> tuple[int, int]:
        """The number of units that were served, and of all."""
        hits = sum(tally.hits for tally in self.units.values())
        return hits, hits + sum(tally.misses for tally in self.units.values())

    def as_json(self, store: StoreSize) -> dict[str, object]:
        """The public form, as `hipcache stats --json` prints it."""
        return {
            "version": VERSION,
            "compiles": dict(self.compiles),
            "direct_hits": self.direct,
            "units": {name: asdict(tally) for name, tally in self.units.items()},
            "jobs": {"frontend": asdict(self.frontend), "backend": asdict(self.backend)},
            "store": {"bytes": store.bytes, "max_bytes": store.max_bytes, "entries": store.entries},
            "seconds_saved": round(self.seconds_saved, 3),
            "passed_through": dict(self.passed_through),
            "not_kept": dict(self.not_kept),
            **self.counted,
            "average_seconds": {end: round(seconds, 6) for end, seconds in self.average_seconds.items()},
            "timed": dict(self.timed),
            "checks": dict(self.checks),
            "since": self.since,
        }


def log_texts(outcome: CompileOutcome) -> list[str]:
    """The texts of the lines that a compile adds to the log, without checksum (see above)."""
    fields = [outcome.outcome, outcome.reason, str(round(outcome.seconds_saved * 1000))]
    for unit in outcome.units:
        fields.append(f"{unit.name} {_MARKS[unit.hit]}{_MARKS[unit.frontend]}{_MARKS[unit.backend]}")
    if outcome.took:
        fields.append(f"{_TOOK}{round(outcome.took * 1e6)} {_NO_MARKS}")
    if outcome.check:
        fields.append(f"{_CHECK} {_NO_MARKS}")
    if outcome.direct:
        fields.append(f"{_DIRECT} {_NO_MARKS}")
    more = ([PREAMBLES, what, str(count)] for what, count in outcome.preambles)
    return ["\t".join(" ".join(text.split()) for text in row) for row in (fields, *more)]


def counters(text: str) -> Counter[str]:
    """The counters that one line of the log adds to. Raises ValueError if it does not follow the grammar."""
    outcome, reason, milliseconds, *units = text.split("\t")
    if outcome not in OUTCOMES:
        if reason:
            return Counter({f"{outcome} {reason}": int(milliseconds) or 1})
        told = (unit.rpartition(" ") for unit in units)
        return Counter({f"{outcome} {name}": int(number) for name, _, number in told} or {outcome: 1})
    if f"{_CHECK} {_NO_MARKS}" in units:
        return Counter({f"check {outcome}": 1})
    counts = Counter({f"compile {outcome}": 1, "milliseconds": int(milliseconds)})
    if outcome == PASSED_THROUGH or reason:
        counts[f"{'reason' if outcome == PASSED_THROUGH else 'not kept'} {reason}"] += 1
    for unit in units:
        name, _, marks = unit.rpartition(" ")
        if name.startswith(_TOOK):
            counts.update({f"microseconds {outcome}": int(name[len(_TOOK) :]), f"timed {outcome}": 1})
            continue
        if name == _DIRECT:
            counts[_DIRECT] += 1
            continue
        keys = [f"unit {name}"] if name in (HOST, LINK) else [f"unit {name}", "job frontend", "job backend"]
        for key, mark in zip(keys, marks, strict=False):
            if mark in _COUNTED:
                counts[f"{key} {_COUNTED[mark]}"] += 1
    return counts


def of_counters(counts: Counter[str], since: float | None) -> Statistics:
    def tally(key: str) -> Tally:
        return Tally(counts[f"{key} hits"], counts[f"{key} misses"])

    units = {key.removeprefix("unit ").rpartition(" ")[0] for key in counts if key.startswith("unit ")}
    reasons = {key[7:]: count for key, count in counts.items() if key.startswith("reason ")}
    timed = {outcome: counts[f"timed {outcome}"] for outcome in OUTCOMES if counts[f"timed {outcome}"]}
    return Statistics(
        compiles={outcome: counts[f"compile {outcome}"] for outcome in OUTCOMES},
        units={name: tally(f"unit {name}") for name in [*sorted(units - {HOST, LINK}), HOST, LINK]},
        frontend=tally("job frontend"),
        backend=tally("job backend"),
        passed_through=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        seconds_saved=counts["milliseconds"] / 1000,
        since=since,
        not_kept={key[9:]: count for key, count in counts.items() if key.startswith("not kept ")},
        counted={name: value for group in groups() for name, value in group.values(counts).items()},
        direct=counts[_DIRECT],
        average_seconds={end: counts[f"microseconds {end}"] / number / 1e6 for end, number in timed.items()},
        timed=timed,
        checks={outcome: counts[f"check {outcome}"] for outcome in OUTCOMES if counts[f"check {outcome}"]},
    )


def log_line(text: bytes) -> bytes:
    """A line of a log, with its checksum (see above)."""
    return b"\n%08x\t%s\n" % (binascii.crc32(text), text)


def log_lines(content: bytes) -> Iterator[bytes]:
    """The texts of the lines that are not damaged."""
    for line in content.split(b"\n"):
        crc, _, text = line.partition(b"\t")
        if text and crc == b"%08x" % binascii.crc32(text):
            yield text


def totals(body: str) -> tuple[Counter[str], set[str], float | None]:
    """The sums of a file of totals, the logs that they contain already, and when they were set to zero (None: never).
    Raises ValueError, OverflowError."""
    counts: Counter[str] = Counter()
    folded = set()
    since = None
    for line in body.splitlines():
        number, _, key = line.partition("\t")
        if key.startswith("folded "):
            folded.add(key.removeprefix("folded "))
        elif key == "since":
            since = int(number) / 1000
        else:
            counts[key] = int(number)
    return counts, folded, since


# Recording

FOLD_AT = 1 << 20
HEADER = "hipcache statistics 1"
_HERE = "statistics"
_LOCK = f"{_HERE}/lock"
_MANY_LOGS = 64
_MOST_LINES = 1 << 20  # bytes of a file that a report reads


def record(root: Path, outcome: CompileOutcome, umask: int | None = None) -> bool:
    """Count one compile in the store at `root`. False if that could not be written. `umask`: see `Confined`."""
    return _append(Confined(root, umask), b"".join(_line(text.split("\t")) for text in log_texts(outcome)))


def record_verified(root: Path, verdict: str) -> bool:
    """Count one comparison. `verdict`: a counter of VERIFIED."""
    return _append(Confined(root), _line([VERIFIED, verdict, "0"]))


def record_locked(root: Path, umask: int | None = None) -> bool:
    """Count one lock that did not come free."""
    return _append(Confined(root, umask), _line([LOCKED, "", "0"]))


def count(root: Path, group: str, counts: Mapping[str, int], umask: int | None = None) -> bool:
    """Add to counters of the group with that name."""
    told = [f"{name} {number}" for name, number in counts.items() if number]
    return not told or _append(Confined(root, umask), _line([group, "", "0", *told]))


def _append(store: Confined, content: bytes) -> bool:
    try:
        with _open_lock(store) as lock:
            if not _try_lock(lock, fcntl.LOCK_SH):
                _write_whole(store, f"log.{_unique()}", content)
                return True
            with store.keep(f"{_HERE}/log", MOST_STATISTICS, os.O_WRONLY | os.O_APPEND) as log:
                written = os.write(log, content) == len(content)
                full = os.fstat(log).st_size >= FOLD_AT
            fcntl.flock(lock, fcntl.LOCK_UN)
            # Who finds the lock taken leaves it: the next one that appends looks again.
            if (full or _has_many_logs(store)) and _try_lock(lock, fcntl.LOCK_EX):
                # The line is written and counts; a fold that fails is tried again at the next one.
                with contextlib.suppress(OSError):
                    _fold(store)
            return written
    except OSError:
        return False


def read(root: Path) -> Statistics:
    """The sums of everything recorded. Nothing there, no permission or damage: zeros."""
    store = Confined(root)
    since: float | None = None
    lock: int | None = None
    with contextlib.suppress(OSError):
        since = store.status(_LOCK).st_mtime
        lock = store.open(_LOCK, MOST_STATISTICS)
        # If the lock stays taken, the sums may lack what is being folded right now.
        _wait_lock(lock, fcntl.LOCK_SH)
    try:
        counts, folded, zeroed = _read_totals(store)
        for log in _logs(store):
            if log not in folded:
                counts.update(_read_log(store, log))
    finally:
        if lock is not None:
            os.close(lock)
    return of_counters(counts, zeroed if zeroed is not None else since)


def zero(root: Path, clock: Callable[[], float] = time.time, umask: int | None = None) -> None:
    """Begin again at zero. Compiles that run meanwhile are counted before or after, never in part."""
    store = Confined(root, umask)
    place = store.path(_HERE)
    try:
        with _open_lock(store) as lock:
            if not _wait_lock(lock, fcntl.LOCK_EX):
                raise StoreError(f"the statistics in '{place}' are in use", "another process has them; try again")
            logs = _set_aside(store)
            _write_totals(store, Counter(), logs, clock())
            _remove(store, logs)
    except OSError as error:
        raise StoreError(
            f"cannot write the statistics in '{place}': {error.strerror}", "check permissions and free space"
        ) from error


# Locking


def _open_lock(store: Confined) -> Descriptor:
    try:
        return store.keep(_LOCK, MOST_STATISTICS, lock=True)
    except (FileNotFoundError, NotADirectoryError):
        store.make((_HERE,))
        return store.keep(_LOCK, MOST_STATISTICS, lock=True)


def _try_lock(lock: int, how: int) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _wait_lock(lock: int, how: int) -> bool:
    """Lock within a second: a process that was stopped while it held the lock must not hang a report."""
    for _ in range(100):
        if _try_lock(lock, how):
            return True
        time.sleep(0.01)
    return False


# Lines


def line_of_hit(outcome: CompileOutcome, outputs: Iterable[str]) -> bytes:
    """The line of the same compile when nothing has changed. `outputs`: absolute paths."""
    hit = replace(outcome.as_hit(), check=any(map(is_check, outputs)), direct=True)
    return _line(log_texts(hit)[0].split("\t"))


def _line(fields: list[str]) -> bytes:
    text = "\t".join(" ".join(text.split()) for text in fields).encode("utf-8", "backslashreplace")
    return log_line(text)


def _read_log(store: Confined, log: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    try:
        content = store.read(f"{_HERE}/{log}", MOST_STATISTICS)
    except OSError:
        return counts
    for text in log_lines(content):
        # A line of another version, with the right checksum, may still not read as one of ours.
        with contextlib.suppress(ValueError):
            counts.update(counters(text.decode("utf-8")))
    return counts


# Totals and folding


def _read_totals(store: Confined) -> tuple[Counter[str], set[str], float | None]:
    """The sums, the logs that they contain already, and when they were set to zero (None: never)."""
    with contextlib.suppress(OSError, ValueError, OverflowError):
        header, _, body = store.read(f"{_HERE}/totals", MOST_STATISTICS).partition(b"\n")
        if header == f"{HEADER} {binascii.crc32(body):08x}".encode():
            return totals(body.decode("utf-8", "replace"))
    return Counter(), set(), None


def _write_totals(store: Confined, counts: Counter[str], folded: list[str], since: float | None) -> None:
    lines = [f"{number}\t{key}\n" for key, number in sorted(counts.items())]
    lines += [f"0\tfolded {log}\n" for log in folded]
    if since is not None:
        lines.append(f"{round(since * 1000)}\tsince\n")
    body = "".join(lines).encode()
    _write_whole(store, "totals", f"{HEADER} {binascii.crc32(body):08x}\n".encode() + body)


def _fold(store: Confined) -> None:
    """Add all logs to the totals. The caller holds the lock exclusively."""
    counts, folded, since = _read_totals(store)
    logs = _set_aside(store)
    for log in logs:
        if log not in folded:
            counts.update(_read_log(store, log))
    _write_totals(store, counts, logs, since)
    _remove(store, logs)


def _set_aside(store: Confined) -> list[str]:
    """Give `log` a name of its own, which is never used again, and list all such logs. Sweep what was being written
    by processes that died."""
    with contextlib.suppress(FileNotFoundError):
        store.rename(f"{_HERE}/log", f"{_HERE}/log.{_unique()}")
    for leftover, status in store.listing(_HERE):
        if leftover.startswith("new.") and time.time() - status.st_mtime > 3600:
            store.remove(f"{_HERE}/{leftover}")
    return list(_logs(store))


def _logs(store: Confined) -> Iterator[str]:
    with contextlib.suppress(OSError):
        names = sorted(name for name, _ in store.listing(_HERE))
        yield from (name for name in names if name == "log" or name.startswith("log."))


def _has_many_logs(store: Confined) -> bool:
    """Looks at one time in a hundred or so."""
    return os.urandom(1)[0] < 3 and sum(1 for _ in _logs(store)) > _MANY_LOGS


def _remove(store: Confined, logs: list[str]) -> None:
    for log in logs:
        store.remove(f"{_HERE}/{log}")


def read_lines(store: Confined, name: str) -> Iterator[bytes]:
    """The texts in the file of that name in this directory, but for damaged ones; none if it cannot be read."""
    with contextlib.suppress(OSError):
        yield from log_lines(store.read(f"{_HERE}/{name}", _MOST_LINES))


def write_lines(store: Confined, name: str, texts: Iterable[bytes]) -> bool:
    """Put these into its place. False if that cannot be done: only a report lacks them."""
    try:
        store.make((_HERE,))
        _write_whole(store, name, b"".join(map(log_line, texts)))
    except OSError:
        return False
    return True


def _write_whole(store: Confined, name: str, content: bytes) -> None:
    """Put the content into the place of the file of that name in this directory. Raises OSError."""
    store.replace(f"{_HERE}/{name}", content, f"{_HERE}/new.{_unique()}")


def _unique() -> str:
    return f"{time.time_ns():x}-{os.urandom(8).hex()}"
