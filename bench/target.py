"""What hipcache has to reach: limits for ratios, and the verdict on a run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from result import CPU, PLAIN, WALL, Measure, Result
from scenario import ALONE, NINJA


class Verdict(Enum):
    """How a run answers a target."""

    PASS = "pass"
    FAIL = "FAIL"
    OPEN = "not measured"


@dataclass(frozen=True)
class Target:
    """`tool`'s time over `against`'s time, in one scenario and form, is at most `limit`."""

    form: str
    scenario: str
    against: str
    limit: float
    tool: str = "hipcache"
    measure: Measure = WALL


TARGETS = (
    Target(NINJA, "cold", PLAIN, 0.85),
    Target(ALONE, "cold", PLAIN, 0.6),
    Target(ALONE, "added", "ccache", 0.15),
    Target(ALONE, "added", "sccache", 0.15),
    Target(NINJA, "added", "ccache", 0.15),
    Target(NINJA, "added", "sccache", 0.15),
    Target(ALONE, "subset", "ccache", 0.05),
    Target(ALONE, "subset", "sccache", 0.05),
    Target(NINJA, "subset", "ccache", 0.05),
    Target(NINJA, "subset", "sccache", 0.05),
    Target(ALONE, "host", PLAIN, 0.3),
    Target(ALONE, "host", "ccache", 0.3),
    Target(NINJA, "host", PLAIN, 0.3),
    Target(NINJA, "host", "ccache", 0.3),
    Target(NINJA, "host-again", PLAIN, 0.3),
    Target(NINJA, "host-again", PLAIN, 0.3, measure=CPU),
)

#: Small sources have targets of their own only.
SMALL = (
    Target(NINJA, "cold", PLAIN, 0.65),
    Target(NINJA, "cold", PLAIN, 0.65, measure=CPU),
    Target(NINJA, "host", PLAIN, 0.35),
    Target(NINJA, "host", PLAIN, 0.35, measure=CPU),
)


def targets_of(result: Result) -> tuple[Target, ...]:
    """Those of the run's workload and tools."""
    return SMALL if result.workload.name == "small" else TARGETS


def verdict(target: Target, result: Result) -> tuple[float | None, Verdict]:
    """The measured ratio, and whether it is good enough."""
    ratio = result.ratio(target.form, target.scenario, target.tool, target.against, target.measure)
    if ratio is None:
        return None, Verdict.OPEN
    return ratio, Verdict.PASS if ratio <= target.limit else Verdict.FAIL
