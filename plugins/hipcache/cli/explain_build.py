"""`hipcache explain --build` and `explain TARGET`: which causes made how many units miss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hipcache.cli.screen import plural
from hipcache.config import Config
from hipcache.report import build
from hipcache.report.history import Record
from hipcache.report.outcome import OUTCOMES, counted

_MOST_CAUSES = 20


def as_json(records: Sequence[Record], settings: Config) -> dict[str, object]:
    """The document that `--json` prints: compiles by outcome, and causes, those with the most units first."""
    ends = [one.outcome for one in records]
    causes = build.causes(build.of_history(records))
    return {
        "compiles": {end: ends.count(end) for end in OUTCOMES},
        "causes": [one.as_json() for one in causes],
        "hint": hint(records, settings),
    }


def describe(records: Sequence[Record], what: str, settings: Config) -> list[str]:
    """The same in lines. `what`: "target 'kernels'"."""
    causes = build.summarized(build.causes(build.of_history(records)))
    counts = counted([one.outcome for one in records])
    lines = [f"last compiles of {plural(len(records), 'object')} of {what}: {counts}"]
    for one in causes[:_MOST_CAUSES]:
        units, objects = plural(one.units, "unit"), plural(len(one.objects), "object")
        lines.append(f"  {one.name}: {units} of {objects}, such as '{one.objects[0]}'")
    if len(causes) > _MOST_CAUSES:
        lines.append(f"  and {plural(len(causes) - _MOST_CAUSES, 'more cause')}; --json lists all")
    note = hint(records, settings)
    return [*lines, f"  note: {note}"] if note else lines


def hint(records: Iterable[Record], settings: Config) -> str:
    """Advises to set HIPCACHE_BASEDIR if checkouts could share; else empty."""
    found = None if settings.basedir else build.elsewhere(records)
    return (
        f"'{found[0]}' and '{found[1]}' run the same commands: to share results between these checkouts, set "
        "HIPCACHE_BASEDIR to the directory of each"
        if found
        else ""
    )
