"""The compiles of a target of the build tool, of which many build directories of a store may have one by that name; and
an answer to a name of which the store knows nothing."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from hipcache.errors import HipcacheError, nearest
from hipcache.report.checks import is_check
from hipcache.report.history import History, Record
from hipcache.report.targets import Targets

_MOST_NAMES = 3
_OBJECTS = (".o", ".obj")
_FILES_OF_COMPILES = (*_OBJECTS, ".hip", ".cu", ".cpp", ".cxx", ".cc", ".c", ".s", ".ll", ".bc")


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


def of_name(typed: str, history: History) -> Record | None:
    """The last compile of the object with that file name, if there is a single object. Objects of a build directory
    here come before all others. Raises HipcacheError if there are several."""
    if os.sep in typed or not typed.endswith(_OBJECTS):
        return None
    records = [record for record in history.each() if os.path.basename(record.object) == typed]
    records = near(records, Targets()) or records
    if len(records) > 1:
        names = listed(sorted(os.path.relpath(record.object) for record in records))
        raise HipcacheError(f"the store knows {len(records)} objects named '{typed}'", f"name one of them: {names}")
    return records[0] if records else None


def unknown(typed: str, history: History, store: Path, asked: str) -> HipcacheError:
    """The error for a name of which the store at `store` has no compile: it may be a source, a target (`inspect` takes
    none), mistyped, or a program of objects that other targets compile. `asked`: the subcommand."""
    records = [one for one in history.each() if not is_check(one.object)]
    targets = Targets()
    path = os.path.abspath(typed)
    of_none = f"the store has no record of a compile of '{typed}'"
    made = _made_of(path, records)
    if made:
        which = "the object that was" if len(made) == 1 else "one of the objects that were"
        return HipcacheError(of_none, f"name {which} made of it: '{_command(asked, made[0])}'")
    if asked == "inspect" and (objects := of_target(typed, history)[0]):
        hint = f"name one of its objects, such as '{_command(asked, objects[0])}'"
        return HipcacheError(f"'{typed}' is a target", hint)

    here = near(records, targets, os.path.dirname(path))
    builds = sorted({build_of(one, targets) for one in here})
    called = path if os.sep in typed else typed
    is_listed = {targets.lists(build, called) for build in builds}
    names = {os.path.relpath(one.object) for one in here or records}
    if asked != "inspect":
        names |= {name for one in here or records for name in targets.names(one.object) if os.sep not in name}
    if True not in is_listed and (meant := nearest(typed, names - {typed}, 0.8)):
        return HipcacheError(f"the store knows no object or target '{typed}'", f"did you mean '{meant}'?")
    if not here:
        return HipcacheError(of_none, another_store(store))
    hint = f"in {listed(builds)} these compile HIP: {listed(sorted({_named(one, targets) for one in here}))}"
    if True in is_listed or (None in is_listed and not typed.endswith(_FILES_OF_COMPILES)):
        return HipcacheError(f"'{typed}' seems to compile no HIP itself", hint)
    return HipcacheError(of_none, hint)


def another_store(store: Path) -> str:
    """A hint."""
    return f"is HIPCACHE_DIR ('{store}') the one that the build used?"


def _made_of(source: str, records: Sequence[Record]) -> list[Record]:
    """The compiles of the source at that absolute path, the last one first."""
    last = os.path.basename(source)
    made = (
        one
        for one in records
        for word in one.command
        if word.endswith(last) and os.path.normpath(os.path.join(one.directory, word)) == source
    )
    return sorted(made, key=lambda one: -one.when)


def _command(asked: str, record: Record) -> str:
    return f"hipcache {asked} {shlex.quote(os.path.relpath(record.object))}"


def _named(record: Record, targets: Targets) -> str:
    """By its target, if that has a name of its own."""
    name = targets.of(record.object)
    return os.path.relpath(record.object) if os.sep in name else name


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
