"""The sums of the statistics, as they are shown: hits and misses of units and jobs, and how compiles ended.

They are made of counters with the names that `statistics` gives them.
"""

from __future__ import annotations

import binascii
from collections import Counter
from collections.abc import Iterator, Mapping

from hipcache.report.outcome import HOST, LINK, OUTCOMES, PASSED_THROUGH, VERDICTS, CompileOutcome
from hipcache.store import StoreSize
from hipcache.values import asdict, dataclass, field

# Of the form of `as_json`: another one where a field goes or means something else, not where one comes.
VERSION = 2
_MARKS = {True: "+", False: "-", None: "."}
_COUNTED = {"+": "hits", "-": "misses"}
# Outcomes of lines that tell of no compile: of a comparison, whose reason is the verdict; of a lock not had in time; of
# what a remote was asked; of precompiled headers, with what became of them and how many; of actions that executors
# have run.
VERIFIED, LOCKED, REMOTE, PREAMBLES, EXECUTED = "verified", "locked", "remote", "preambles", "executed"
# Of entries that were removed: how many, and their bytes on disk.
EVICTED = "evicted"
OF_EVICTIONS = ("entries", "bytes")
# Fields behind the units of a line, in their form, so that older versions pass over them: the microseconds that it
# took, the mark of a configure check, which counts nowhere else, and that of a direct hit. `native/statistics.c` writes
# the first.
_TOOK, _CHECK, _DIRECT, _NO_MARKS = "took ", "configure check", "direct", "..."
# Of remotes: results that were asked for, faults, results that were sent, bytes, time that fetches took.
REMOTE_COUNTS = ("hits", "misses", "errors", "uploads", "received", "sent", "milliseconds")
# The same of one unit, whose name stands before each: results that were asked for it, faults, bytes of what these
# results name, time of the fetches.
OF_REMOTE_UNITS = ("hits", "misses", "errors", "bytes", "milliseconds")
# Of executors: actions that workers have run, that were taken back before one did, whose outputs were compared with
# those of this machine, and that failed there, so that they were run here; time until results were there.
# Faults have their kind behind _FAULT: an action that failed there and not here is one of them.
OF_EXECUTIONS = ("done", "taken back", "checked", "failed", "milliseconds")
_FAULT = f"{EXECUTED} fault "
# Passes that used one; precompiled headers that were made, compared with plain passes, and found to differ.
OF_PREAMBLES = ("used", "made", "checked", "different")
# With the reason: passes that went without one.
_WITHOUT = f"{PREAMBLES} without "


@dataclass(frozen=True)
class Tally:
    """Hits and misses of one unit or one kind of job."""

    hits: int = 0
    misses: int = 0


@dataclass(frozen=True)
class Statistics:
    """The sums since `since` (seconds of the epoch; None: never). `direct`: hits that were direct ones; `not_kept`:
    compiles not stored, by reason; `lock_timeouts`: compiles that waited for a lock in vain; `remote`: by
    REMOTE_COUNTS; `remote_units`: by unit and OF_REMOTE_UNITS; `without_preamble`: passes, by reason;
    `executions`: by OF_EXECUTIONS; `execution_faults`: by kind; `average_seconds`: wall time of a compile, of as many
    as `timed` says, and `checks`: configure checks, which count nowhere else, all by outcome; `evicted`: by
    OF_EVICTIONS."""

    compiles: Mapping[str, int]
    units: Mapping[str, Tally]
    frontend: Tally
    backend: Tally
    passed_through: Mapping[str, int]
    seconds_saved: float
    since: float | None
    verified: Mapping[str, int]
    not_kept: Mapping[str, int]
    lock_timeouts: int = 0
    direct: int = 0
    remote: Mapping[str, int] = field(default_factory=dict)
    remote_units: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    preambles: Mapping[str, int] = field(default_factory=dict)
    without_preamble: Mapping[str, int] = field(default_factory=dict)
    executions: Mapping[str, int] = field(default_factory=dict)
    execution_faults: Mapping[str, int] = field(default_factory=dict)
    average_seconds: Mapping[str, float] = field(default_factory=dict)
    timed: Mapping[str, int] = field(default_factory=dict)
    checks: Mapping[str, int] = field(default_factory=dict)
    evicted: Mapping[str, int] = field(default_factory=dict)

    @property
    def cacheable(self) -> int:
        """Compiles that were served or could have been: neither passed through nor failed."""
        return sum(self.compiles[outcome] for outcome in ("hit", "partial", "miss"))

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
            "verified": dict(self.verified),
            "lock_timeouts": self.lock_timeouts,
            "remote": dict(self.remote),
            "remote_units": {name: dict(counts) for name, counts in self.remote_units.items()},
            "preambles": dict(self.preambles),
            "without_preamble": dict(self.without_preamble),
            "executions": dict(self.executions),
            "execution_faults": dict(self.execution_faults),
            "average_seconds": {end: round(seconds, 6) for end, seconds in self.average_seconds.items()},
            "timed": dict(self.timed),
            "checks": dict(self.checks),
            "evicted": dict(self.evicted),
            "since": self.since,
        }


def texts(outcome: CompileOutcome) -> list[str]:
    """The texts of the lines that a compile adds to the log, without checksum (`statistics`)."""
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
    return ["\t".join(" ".join(text.split()) for text in one) for one in (fields, *more)]


def counters(text: str) -> Counter[str]:
    """The counters that one line of the log adds to. Raises ValueError if it does not follow the grammar
    (`statistics`)."""
    outcome, reason, milliseconds, *units = text.split("\t")
    if outcome in (VERIFIED, PREAMBLES):
        return Counter({f"{outcome} {reason}": int(milliseconds) or 1})
    if outcome == LOCKED:
        return Counter({LOCKED: 1})
    if outcome in (REMOTE, EXECUTED, EVICTED):
        told = (unit.rpartition(" ") for unit in units)
        return Counter({f"{outcome} {name}": int(number) for name, _, number in told})
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


def of(counts: Counter[str], since: float | None) -> Statistics:
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
        verified={verdict: counts[f"{VERIFIED} {verdict}"] for verdict in VERDICTS},
        lock_timeouts=counts[LOCKED],
        direct=counts[_DIRECT],
        remote={name: counts[f"{REMOTE} {name}"] for name in REMOTE_COUNTS},
        remote_units={
            unit: {name: counts[f"{REMOTE} {unit} {name}"] for name in OF_REMOTE_UNITS}
            for unit in _remote_units(counts)
        },
        preambles={what: counts[f"{PREAMBLES} {what}"] for what in OF_PREAMBLES},
        without_preamble={key[len(_WITHOUT) :]: count for key, count in counts.items() if key.startswith(_WITHOUT)},
        executions={name: counts[f"{EXECUTED} {name}"] for name in OF_EXECUTIONS},
        average_seconds={end: counts[f"microseconds {end}"] / number / 1e6 for end, number in timed.items()},
        timed=timed,
        checks={outcome: counts[f"check {outcome}"] for outcome in OUTCOMES if counts[f"check {outcome}"]},
        evicted={name: counts[f"{EVICTED} {name}"] for name in OF_EVICTIONS},
        execution_faults={key[len(_FAULT) :]: count for key, count in counts.items() if key.startswith(_FAULT)},
    )


def _remote_units(counts: Mapping[str, int]) -> list[str]:
    words = (key.split(" ") for key in counts if key.startswith(f"{REMOTE} "))
    return sorted({one[1] for one in words if len(one) == 3})


def line(text: bytes) -> bytes:
    """A line of a log, with its checksum (`statistics`)."""
    return b"\n%08x\t%s\n" % (binascii.crc32(text), text)


def lines(content: bytes) -> Iterator[bytes]:
    """The texts of the lines that are not damaged."""
    for one in content.split(b"\n"):
        crc, _, text = one.partition(b"\t")
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
