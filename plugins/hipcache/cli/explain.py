"""`hipcache explain [OBJECT]`: for each unit of a compile hit or miss, and why a miss, as `report/causes` found when
it ended (`report/history`)."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hipcache import config
from hipcache.base.errors import HipcacheError, nearest
from hipcache.base.keys import digest_file
from hipcache.base.values import replace
from hipcache.cli import Console
from hipcache.cli.screen import plural
from hipcache.config import Config
from hipcache.direct import elsewhere
from hipcache.direct.record import Output
from hipcache.inputs.basedir import Basedir
from hipcache.report import build, conditions, outcome, statistics
from hipcache.report.causes import FIRST_COMPILE
from hipcache.report.history import History, Record, UnitRecord
from hipcache.report.outcome import HIT, OUTCOMES, counted, is_check
from hipcache.report.reasons import ADVICE, REASONS
from hipcache.report.targets import Targets
from hipcache.store.local import open_store

SUMMARY = "show why each unit of an object hit or missed"

_ENDINGS = {
    outcome.HIT: "hit",
    outcome.PARTIAL: "partial hit",
    outcome.MISS: "miss",
    outcome.PASSED_THROUGH: "passed through to the compiler",
    outcome.FAILED: "failed",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help = "an object file, a CMake or Meson target, or a file that such a target builds (default: the last compile)"
    parser.add_argument("object", nargs="?", metavar="OBJECT", help=help)
    parser.add_argument("--build", action="store_true", help="show why units missed, for all objects, grouped by cause")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace, console: Console) -> int:
    settings = config.load(console.environ, strict=True)
    if options.build and options.object:
        raise HipcacheError(
            f"--build is for all objects, but '{options.object}' is given, too", "leave out one of the two"
        )
    history = History.of_store(settings.dir)
    several: list[Record] = []
    what = ""
    if options.build:
        several = list(history.each())
        what = "this store"
    elif options.object and history.load(os.path.abspath(options.object)) is None:
        several, what = of_target(options.object, history)
    if several:
        lines, document = describe_build(several, what, settings), build_json(several, settings)
    else:
        record = recorded(settings, options.object)
        note = hint(record, history, settings) or why_none(settings)
        lines, document = (
            [*describe(record), *([f"  note: {note}"] if note else ())],
            {**_document(record), "hint": note},
        )
    for line in [json.dumps(document, indent=2)] if options.json else lines:
        print(line, file=console.out)
    return 0


def hint(record: Record, history: History, settings: config.Config) -> str:
    """A hint for a command that the driver rejects, such as one for an architecture without device libraries; or for an
    object that was compiled for the first time: another checkout may have compiled the same one."""
    if record.outcome == outcome.FAILED and record.detail.startswith("the driver "):
        return (
            "'hipcache doctor' shows which architectures the device libraries cover, and which flags a compiler needs"
        )
    if not any(why.startswith(FIRST_COMPILE) for unit in record.units for why in unit.why):
        return ""
    last = os.path.basename(record.object)
    others = (
        other for other in history.each() if os.path.basename(other.object) == last and other.object != record.object
    )
    found = next(filter(None, (directories_hint((other, record), settings) for other in others)), "")
    if not found and (gone := statistics.read(settings.dir).counted[statistics.EVICTED]["entries"]):
        return f"the store has evicted {gone} entries, perhaps this object's: HIPCACHE_MAX_SIZE may be too small"
    return found


def _document(record: Record) -> dict[str, object]:
    """One compile, as `--json` prints it."""
    names = ("object", "when", "directory", "command", "outcome", "reason", "detail", "notes")
    units = [
        {name: getattr(unit, name) for name in ("name", "hit", "frontend", "backend", "why")} for unit in record.units
    ]
    return {**{name: getattr(record, name) for name in names}, "units": units}


def recorded(settings: config.Config, path: str | None, asked: str = "explain") -> Record:
    """The last compile of the object `path`, or of any. `asked`: the subcommand, for hints. Raises HipcacheError."""
    history = History.of_store(settings.dir)
    if path:
        whole = os.path.abspath(path)
        record = history.load(whole) or _direct_hit(whole, history, settings) or of_name(path, history)
    else:
        record = history.last()
    if record is None and path:
        raise unknown(path, history, settings, asked)
    if record is None:
        raise HipcacheError("the store has no record of a compile", why_none(settings) or another_store(settings.dir))
    return record


def describe(record: Record) -> list[str]:
    """The lines that tell of one compile."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.when))
    what = record.object or " ".join(record.command)
    lines = [f"'{what}', {when}: {_ENDINGS.get(record.outcome, record.outcome)}"]
    if record.reason:
        sentence = REASONS.get(record.reason, record.reason)
        lines.append(f"  because: {sentence}" + (f" ({record.detail})" if record.detail else ""))
        if record.reason in ADVICE:
            lines.append(f"  what to do: {ADVICE[record.reason]}")
    elif record.detail:
        lines.append(f"  {record.detail}")
    width = max((len(unit.name) for unit in record.units), default=0)
    for unit in record.units:
        lines.append(f"  {unit.name:<{width}}  {_ending(unit)}")
        lines += [f"  {'':<{width}}    {reason}" for reason in unit.why]
    lines += [f"  note: {note}" for note in record.notes]
    return lines


def _ending(unit: UnitRecord) -> str:
    if not unit.why:
        return "hit"
    if unit.hit and unit.backend:
        return "hit: the front end ran again, and the store has the back end's result for its output"
    return "miss"


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
    found = [record for record in history.each() if called in targets.names(record.object)]
    here = found if is_path else near(found, targets)
    if not here and os.path.isfile(typed):
        return [], ""
    records = here or found
    builds = sorted({build_of(record, targets) for record in records})
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


def unknown(typed: str, history: History, settings: Config, asked: str) -> HipcacheError:
    """The error for a name of which the store has no compile: it may be a source, a target (`inspect` takes none),
    mistyped, a program of objects that other targets compile, or an object of which none could be kept. `asked`: the
    subcommand."""
    records = [record for record in history.each() if not is_check(record.object)]
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
    builds = sorted({build_of(record, targets) for record in here})
    called = path if os.sep in typed else typed
    is_listed = {targets.lists(build, called) for build in builds}
    names = {os.path.relpath(record.object) for record in here or records}
    if asked != "inspect":
        names |= {name for record in here or records for name in targets.names(record.object) if os.sep not in name}
    none_kept = why_none(settings)
    if True not in is_listed and not os.path.exists(path) and (meant := nearest(typed, names - {typed}, 0.8)):
        hint = f"did you mean '{meant}'?" + (f" Else: {none_kept}" if none_kept else "")
        return HipcacheError(f"the store knows no object or target '{typed}'", hint)
    if none_kept or not here:
        return HipcacheError(of_none, none_kept or another_store(settings.dir))
    hint = f"in {listed(builds)} these compile HIP: {listed(sorted({_named(record, targets) for record in here}))}"
    if True in is_listed or (None in is_listed and not typed.endswith(_FILES_OF_COMPILES)):
        return HipcacheError(f"'{typed}' seems to compile no HIP itself", hint)
    return HipcacheError(of_none, hint)


def why_none(settings: Config) -> str:
    """A hint where the store keeps no records now, else empty."""
    if settings.readonly:
        return f"no compile is recorded while the store is read-only ({settings.origins['readonly']})"
    found = next(conditions.of_store(settings), None)
    return f"no compile is recorded: {found.message}: {found.hint}" if found else ""


def another_store(store: Path) -> str:
    """A hint."""
    return f"is HIPCACHE_DIR ('{store}') the one that the build used?"


def _made_of(source: str, records: Sequence[Record]) -> list[Record]:
    """The compiles of the source at that absolute path, the last one first."""
    last = os.path.basename(source)
    made = (
        record
        for record in records
        for word in record.command
        if word.endswith(last) and os.path.normpath(os.path.join(record.directory, word)) == source
    )
    return sorted(made, key=lambda record: -record.when)


def _command(asked: str, record: Record) -> str:
    return f"hipcache {asked} {shlex.quote(os.path.relpath(record.object))}"


def _named(record: Record, targets: Targets) -> str:
    """By its target, if that has a name of its own."""
    name = targets.of(record.object)
    return os.path.relpath(record.object) if os.sep in name else name


def near(records: Sequence[Record], targets: Targets, place: str = ".") -> list[Record]:
    """Those of the innermost build directory that holds the directory `place`; if none does, those of all below it."""
    place = os.path.realpath(place)
    builds = {build: os.path.realpath(build) for build in {build_of(record, targets) for record in records}}
    holding = [real for real in builds.values() if _holds(real, place)]
    innermost = max(holding, key=len, default="")
    chosen = {build for build, real in builds.items() if (real == innermost if holding else _holds(place, real))}
    return [record for record in records if build_of(record, targets) in chosen]


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


_MOST_CAUSES = 20


def build_json(records: Sequence[Record], settings: Config) -> dict[str, object]:
    """The document that `--json` prints: compiles by outcome, and causes, those with the most units first."""
    ends = [record.outcome for record in records]
    causes = build.causes(build.of_history(records))
    return {
        "compiles": {end: ends.count(end) for end in OUTCOMES},
        "causes": [cause.as_json() for cause in causes],
        "hint": directories_hint(records, settings),
    }


def describe_build(records: Sequence[Record], what: str, settings: Config) -> list[str]:
    """The same in lines. `what`: "target 'kernels'"."""
    causes = build.summarized(build.causes(build.of_history(records)))
    counts = counted([record.outcome for record in records])
    lines = [f"last compiles of {plural(len(records), 'object')} of {what}: {counts}"]
    for cause in causes[:_MOST_CAUSES]:
        units, objects = plural(cause.units, "unit"), plural(len(cause.objects), "object")
        lines.append(f"  {cause.name}: {units} of {objects}, such as '{cause.objects[0]}'")
    if len(causes) > _MOST_CAUSES:
        lines.append(f"  and {plural(len(causes) - _MOST_CAUSES, 'more cause')}; --json lists all")
    note = directories_hint(records, settings)
    return [*lines, f"  note: {note}"] if note else lines


def directories_hint(records: Iterable[Record], settings: Config) -> str:
    """Advises what to do if checkouts, or build directories of one, could share; else empty."""
    records = list(records)
    if found := None if settings.basedir else build.elsewhere(records):
        return (
            f"'{found[0]}' and '{found[1]}' run the same commands: to share results between these checkouts, set "
            "HIPCACHE_BASEDIR to the directory of each"
        )
    if found := build.elsewhere(filter(_names_its_directory, records), other_files=False):
        return (
            f"'{found[0]}' and '{found[1]}' run the same commands, but -g puts that name into objects: to share "
            "results, add -ffile-compilation-dir=."
        )
    return ""


def _names_its_directory(record: Record) -> bool:
    option = ("option", f"-fdebug-compilation-dir={record.directory}")
    return any(option in unit.inputs for unit in record.units)


def _direct_hit(path: str, history: History, settings: Config) -> Record | None:
    """The direct hit that made the file at absolute `path` of a compile in another checkout, which leaves no history:
    that compile's record for every checkout has this file, with its content. None if there is no such compile."""
    try:
        status, digest = os.stat(path), digest_file(path)
    except OSError:
        return None
    store = open_store(settings, read_only=True)
    last = os.path.basename(path)
    for record in history.each():
        if os.path.basename(record.object) != last:
            continue
        for here, there in _bases(path, record.object):
            output = Output(Basedir(here).portable(path), digest, os.access(path, os.X_OK)).pack(status.st_size)
            if output in (store.get_action(elsewhere.key(record.command, record.directory, there)) or b""):
                units = tuple(replace(unit, hit=True, why=()) for unit in record.units)
                notes = (f"taken from the compile of '{record.object}'",)
                return replace(record, object=path, when=status.st_mtime, outcome=HIT, notes=notes, units=units)
    return None


def _bases(one: str, other: str) -> Iterator[tuple[str, str]]:
    """Pairs of directories in which the two paths have the same name."""
    while os.path.basename(one) == os.path.basename(other) and os.path.dirname(one) != one:
        one, other = os.path.dirname(one), os.path.dirname(other)
        yield one, other
