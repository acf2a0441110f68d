"""`hipcache inspect [OBJECT]`: the key of each unit, in words, and the files that its pass read."""

from __future__ import annotations

import argparse
import json
import shlex
from contextlib import suppress

from hipcache import config
from hipcache.base.errors import HipcacheError
from hipcache.base.keys import is_digest
from hipcache.cli import Console
from hipcache.cli.explain import recorded
from hipcache.cli.screen import plural
from hipcache.inputs.readset import ReadSet, paths
from hipcache.report.history import Record, UnitRecord
from hipcache.store.local import LocalStore

SUMMARY = "show the key of each unit of an object, and the files that it read"
_DIGITS = 16  # of a digest, for people


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("object", nargs="?", metavar="OBJECT", help="an object file (default: the last compile)")
    parser.add_argument("--unit", metavar="NAME", help="only this unit: an architecture such as gfx90a, host or link")
    parser.add_argument("--json", action="store_true", help="print JSON, with full digests and all paths")


def run(options: argparse.Namespace, console: Console) -> int:
    settings = config.load(console.environ, strict=True)
    record = recorded(settings, options.object, "inspect")
    units = [unit for unit in record.units if options.unit in (None, unit.name)]
    if not units:
        known = ", ".join(unit.name for unit in record.units)
        wanted = f"unit '{options.unit}'" if options.unit else "units"
        hint = f"its units are {known}" if known else f"its last compile: {record.outcome.replace('_', ' ')}"
        raise HipcacheError(f"'{record.object}' has no {wanted}", hint)
    store = LocalStore(settings.dir, max_bytes=0, read_only=True)
    reads = {unit.name: _reads(store, unit) for unit in units}
    if options.json:
        print(json.dumps(_as_json(record, units, reads), indent=2), file=console.out)
        return 0
    for line in _lines(record, units, reads):
        print(line, file=console.out)
    return 0


def _reads(store: LocalStore, unit: UnitRecord) -> ReadSet | None:
    """The files that it read; None if it reads none, or the store does not hold the list any more."""
    with suppress(ValueError):
        return ReadSet.unpack(store.get_blob(unit.reads) or b"") if unit.reads else None
    return None


def _lines(record: Record, units: list[UnitRecord], reads: dict[str, ReadSet | None]) -> list[str]:
    lines = [f"'{record.object}'", f"  command    {shlex.join(record.command)}", f"  directory  {record.directory}"]
    lines += [f"  {name}={value}" for name, value in record.variables.items()]
    for unit in units:
        lines += ["", unit.name]
        width = min(32, max((len(name) for name, _ in unit.inputs), default=0))
        lines += [f"  {name:<{width}}  {_short(value)}" for name, value in unit.inputs]
        found = reads[unit.name]
        if found:
            missed = len([*paths(found.absent)])
            lines.append(f"  read {plural(len(found.files), 'file')}; looked for {missed} more that did not exist:")
            lines += [f"    {file.digest[:_DIGITS]}  {file.path}" for file in found.files]
            lines += [f"    {file.digest[:_DIGITS]}  {file.path} (not as a header)" for file in found.besides]
        elif unit.reads:
            lines.append("  the store no longer has the list of files that it read")
    return lines


def _short(value: str) -> str:
    return value[:_DIGITS] if is_digest(value) else value


def _as_json(record: Record, units: list[UnitRecord], reads: dict[str, ReadSet | None]) -> dict[str, object]:
    def files(found: ReadSet | None) -> dict[str, object] | None:
        if found is None:
            return None
        read = {file.path: file.digest for file in found.all_files}
        return {"files": read, "absent": [*paths(found.absent)]}

    return {
        "object": record.object,
        "command": list(record.command),
        "directory": record.directory,
        "variables": dict(record.variables),
        "units": {
            unit.name: {"key": [list(part) for part in unit.inputs], "reads": files(reads[unit.name])} for unit in units
        },
    }
