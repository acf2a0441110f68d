"""The sums of the statistics, as they are shown: hits and misses of units and jobs, and how compiles ended.

They are made of counters with the names that `statistics` gives them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hipcache.outcome import OUTCOMES, VERDICTS
from hipcache.store import StoreSize
from hipcache.values import asdict, dataclass

HOST, LINK = "host", "link"
# Outcomes of lines that tell of no compile: of a comparison, whose reason is the verdict; of a lock not had in time.
VERIFIED, LOCKED = "verified", "locked"


@dataclass(frozen=True)
class Tally:
    """Hits and misses of one unit or one kind of job."""

    hits: int = 0
    misses: int = 0


@dataclass(frozen=True)
class Statistics:
    """The sums since `since` (seconds of the epoch; None: never). `not_kept`: compiles not stored, by reason;
    `lock_timeouts`: compiles that waited for a lock in vain."""

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

    def as_json(self, store: StoreSize) -> dict[str, object]:
        """The public form, as `hipcache stats --json` prints it."""
        return {
            "compiles": dict(self.compiles),
            "units": {name: asdict(tally) for name, tally in self.units.items()},
            "jobs": {"frontend": asdict(self.frontend), "backend": asdict(self.backend)},
            "store": {"bytes": store.bytes, "max_bytes": store.max_bytes, "entries": store.entries},
            "seconds_saved": round(self.seconds_saved, 3),
            "passed_through": dict(self.passed_through),
            "not_kept": dict(self.not_kept),
            "verified": dict(self.verified),
            "lock_timeouts": self.lock_timeouts,
            "since": self.since,
        }


def of(counts: Counter[str], since: float | None) -> Statistics:
    def tally(key: str) -> Tally:
        return Tally(counts[f"{key} hits"], counts[f"{key} misses"])

    units = {key.removeprefix("unit ").rpartition(" ")[0] for key in counts if key.startswith("unit ")}
    reasons = {key[7:]: count for key, count in counts.items() if key.startswith("reason ")}
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
    )
