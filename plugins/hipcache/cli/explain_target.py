"""The compiles of a target of the build tool, of which many build directories of a store may have one by that name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from hipcache.report.history import History, Record
from hipcache.report.targets import Targets

_MOST_NAMES = 3


def of_target(typed: str, history: History) -> tuple[list[Record], str]:
    """The last compiles of the objects of a target by its name, or by a file that it makes, and what they are of, in
    words; none if no target goes by that. Those of a build directory here come before all others. If there are none of
    these, `typed` may be a file here, which no compile elsewhere made."""
    targets = Targets()
    is_path = os.sep in typed
    called = os.path.abspath(typed) if is_path else typed
    found = [one for one in history.each() if called in targets.names(one.object)]
    here = found if is_path else near(found, targets)
    if not here and os.path.isfile(typed):
        return [], ""
    records = here or found
    builds = sorted({build_of(one, targets) for one in records})
    # The one that is here goes without saying.
    where = f" in {listed(builds)}" if len(builds) > 1 or not here else ""
    return records, f"target '{typed}'{where}"


def near(records: Sequence[Record], targets: Targets, place: str = ".") -> list[Record]:
    """Those of the innermost build directory that holds the directory `place`; if none does, those of all below it."""
    place = os.path.realpath(place)
    builds = {build: os.path.realpath(build) for build in {build_of(one, targets) for one in records}}
    holding = [real for real in builds.values() if _holds(real, place)]
    innermost = max(holding, key=len, default="")
    chosen = {build for build, real in builds.items() if (real == innermost if holding else _holds(place, real))}
    return [one for one in records if build_of(one, targets) in chosen]


def build_of(record: Record, targets: Targets) -> str:
    """The build directory of a compile; where no build tool left a trace, the directory that the compile ran in, or
    the object's."""
    above = os.path.dirname(record.object)
    return targets.build(record.object) or (record.directory if _holds(record.directory, above) else above)


def listed(names: Iterable[str]) -> str:
    """Some names in quotes, and how many more there are."""
    quoted = [f"'{name}'" for name in names]
    more = len(quoted) - _MOST_NAMES
    return ", ".join(quoted) if more <= 0 else f"{', '.join(quoted[:_MOST_NAMES])} and {more} more"


def _holds(directory: str, path: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
