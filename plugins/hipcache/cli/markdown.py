"""The statistics as a page of Markdown, for the summary of a CI job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hipcache.cli import arches
from hipcache.cli.screen import human_size, human_time, percent
from hipcache.report.outcome import HIT, MISS, PARTIAL
from hipcache.report.sums import Statistics, Tally
from hipcache.store import StoreSize

_ENDS = {HIT: "hit", PARTIAL: "partial hit", MISS: "miss"}


def page(numbers: Statistics, size: StoreSize, namespace: str = "") -> str:
    """A table of the compiles, one of the architectures, and one of commands that were not cached, if any."""
    compiles = numbers.compiles
    cacheable = numbers.cacheable
    rows = [
        ("compiles", str(sum(compiles.values()))),
        ("cacheable", str(cacheable)),
        ("hit rate", percent(compiles["hit"], cacheable)),
        ("unit hit rate", percent(*numbers.unit_hits)),
        *((f"average time of a {_ENDS[end]}", f"{took:.3g} s") for end, took in numbers.average_seconds.items()),
        ("compile time saved", human_time(numbers.seconds_saved)),
        ("store", human_size(size.bytes) + (f" of {human_size(size.max_bytes)}" if size.max_bytes else "")),
    ]
    if numbers.checks:
        rows.append(("configure checks (not counted above)", str(sum(numbers.checks.values()))))
    if numbers.evicted.get("entries"):
        rows.append(("evicted entries", f"{numbers.evicted['entries']} ({human_size(numbers.evicted['bytes'])})"))
    if namespace:
        rows.append(("namespace", namespace))
    parts = ["### hipcache", _table(("", ""), rows)]
    units = arches.units(numbers.units)
    if units:
        parts.append(_table(("architecture", "hits", "misses", "hit rate"), (_row(*unit) for unit in units)))
    fetched = [(name, *cells) for name, cells in arches.of_remote(numbers.remote_units)]
    if fetched:
        parts.append(_table(("of remotes", *arches.OF_REMOTE), fetched))
    left = {**numbers.passed_through, **numbers.not_kept}
    if left:
        parts.append(_table(("not cached, by reason", "compiles"), ((f"`{name}`", str(n)) for name, n in left.items())))
    return "\n\n".join(parts) + "\n"


def _row(name: str, tally: Tally) -> Sequence[str]:
    return name, str(tally.hits), str(tally.misses), percent(tally.hits, tally.hits + tally.misses)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))
