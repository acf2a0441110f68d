"""`hipcache explain [OBJECT]`: for each unit of a compile hit or miss, and why a miss."""

from __future__ import annotations

import argparse
import json
import os
import time

from hipcache import config
from hipcache.cli import Session, explain_build
from hipcache.cli.explain_target import another_store, of_name, of_target, unknown
from hipcache.direct import served
from hipcache.errors import HipcacheError
from hipcache.report import outcome
from hipcache.report.advice import ADVICE
from hipcache.report.causes import FIRST_COMPILE
from hipcache.report.history import History, Record, UnitRecord

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


def run(options: argparse.Namespace, session: Session) -> int:
    settings = config.load(session.environ, strict=True)
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
        lines, document = explain_build.describe(several, what, settings), explain_build.as_json(several, settings)
    else:
        record = recorded(settings, options.object)
        note = _hint(record, history, settings)
        lines, document = (
            [*describe(record), *([f"  note: {note}"] if note else ())],
            {**_document(record), "hint": note},
        )
    for line in [json.dumps(document, indent=2)] if options.json else lines:
        print(line, file=session.out)
    return 0


def _hint(record: Record, history: History, settings: config.Config) -> str:
    """A hint for a command that the driver rejects, such as one for an architecture without device libraries; or for an
    object that was compiled for the first time: another checkout may have compiled the same one."""
    if record.outcome == outcome.FAILED and record.detail.startswith("the driver "):
        return (
            "'hipcache doctor' shows which architectures the device libraries cover, and which flags a compiler needs"
        )
    if not any(why.startswith(FIRST_COMPILE) for unit in record.units for why in unit.why):
        return ""
    last = os.path.basename(record.object)
    others = (one for one in history.each() if os.path.basename(one.object) == last and one.object != record.object)
    return next(filter(None, (explain_build.hint((one, record), settings) for one in others)), "")


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
        record = history.load(whole) or served.compile_of(whole, history, settings) or of_name(path, history)
    else:
        record = history.last()
    if record is None and path:
        raise unknown(path, history, settings.dir, asked)
    if record is None:
        raise HipcacheError("the store has no record of a compile", another_store(settings.dir))
    return record


def describe(record: Record) -> list[str]:
    """The lines that tell of one compile."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.when))
    what = record.object or " ".join(record.command)
    lines = [f"'{what}', {when}: {_ENDINGS.get(record.outcome, record.outcome)}"]
    if record.reason:
        sentence = outcome.REASONS.get(record.reason, record.reason)
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
