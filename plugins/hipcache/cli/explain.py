"""`hipcache explain [OBJECT]`: for each unit of a compile hit or miss, and why a miss."""

from __future__ import annotations

import argparse
import os
import time

from hipcache import config, outcome
from hipcache.cli import Session
from hipcache.errors import HipcacheError
from hipcache.report.advice import ADVICE
from hipcache.report.history import History, Record, UnitRecord
from hipcache.store.layout import HISTORY
from hipcache.store.local import LocalStore

SUMMARY = "tell why the units of an object hit or missed"

_ENDINGS = {
    outcome.HIT: "all from the cache",
    outcome.PARTIAL: "partly from the cache",
    outcome.MISS: "compiled",
    outcome.PASSED_THROUGH: "left to the compiler",
    outcome.FAILED: "failed",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("object", nargs="?", metavar="OBJECT", help="an object file (default: the last compile)")


def run(options: argparse.Namespace, session: Session) -> int:
    for line in describe(recorded(config.load(session.environ, strict=True), options.object)):
        print(line, file=session.out)
    return 0


def recorded(settings: config.Config, path: str | None) -> Record:
    """The last compile of the object `path`, or of any. Raises HipcacheError."""
    history = History(LocalStore(settings.dir, max_bytes=0, read_only=True).notes(HISTORY))
    record = history.load(os.path.abspath(path)) if path else history.last()
    if record is None:
        which = f"no compile of '{path}' is known" if path else "no compile is known"
        hint = f"it was not compiled with this store ('{settings.dir}'), or HIPCACHE_DIR differs from the build's"
        raise HipcacheError(which, hint)
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
        return "front end ran; its device code is the same, so the back end's result was there"
    return "compiled"
