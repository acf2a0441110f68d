"""The sums of compiles that are known one by one: of one build's log, or of the last ones of all objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from hipcache.report import stats_log, sums
from hipcache.report.checks import is_check
from hipcache.report.outcome import HIT, MISS, PARTIAL
from hipcache.values import replace

# The others go on in the compiler, or end early.
_TIMED = (HIT, PARTIAL, MISS)


def total(log: Path) -> sums.Statistics:
    """The sums of a statistics log. Raises NoLog."""
    return together(stats_log.read(log))


def together(compiles: Iterable[stats_log.Compile]) -> sums.Statistics:
    """The sums without configure checks, which are counted apart; `since` is the begin of the first compile."""
    counts, checks = Counter[str](), Counter[str]()
    took: dict[str, list[float]] = {end: [] for end in _TIMED}
    since: float | None = None
    for one in compiles:
        since = one.began if since is None else min(since, one.began)
        if is_check(one.object):
            checks[one.outcome] += 1
            continue
        for text in one.counted:
            counts.update(sums.counters(text))
        if one.seconds and one.outcome in took:
            took[one.outcome].append(one.seconds)
    average = {end: sum(seconds) / len(seconds) for end, seconds in took.items() if seconds}
    timed = {end: len(seconds) for end, seconds in took.items() if seconds}
    return replace(sums.of(counts, since), average_seconds=average, timed=timed, checks=dict(checks))
