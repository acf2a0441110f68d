"""`hipcache run -- COMMAND`: a build with a live line while it runs, and a summary at its end."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

from hipcache import config, processes
from hipcache.base.errors import ConfigError, HipcacheError
from hipcache.base.files import write_whole
from hipcache.cli import Console, explain, page
from hipcache.cli.screen import Screen, asked_units, human_time, percent, plural
from hipcache.config import Config
from hipcache.processes import RunningProcess
from hipcache.processes.runner import run_in_foreground
from hipcache.report import build, stats_log
from hipcache.report.build import Cause
from hipcache.report.causes import FIRST_COMPILE
from hipcache.report.history import History
from hipcache.report.outcome import HIT, counted
from hipcache.report.reasons import ADVICE
from hipcache.report.statistics import Statistics
from hipcache.report.stats_log import Compile
from hipcache.report.targets import Targets

SUMMARY = "run a build command; show its hits live, and a summary at the end"
#: The first word that is no option of ours begins the command, with all that follows.
TAKES_COMMAND = True
_MOST_CAUSES = 3
_COMPILERS = ("clang", "amdclang", "lld", "ld.lld", "llc", "opt")
_PAUSE = 0.5  # seconds between two looks at the log
_NOT_FOUND, _NOT_RUN = 127, 126  # exit status, as shells have it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--report", type=Path, metavar="FILE", help="write a self-contained HTML page of the build")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the summary as JSON")
    parser.add_argument("--label", default="", metavar="TEXT", help="a name of this build, such as its branch")
    parser.add_argument("--no-live", action="store_true", help="show no live line on a terminal")
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the build, such as: ninja -C build"
    )


def run(options: argparse.Namespace, console: Console) -> int:
    """The command's exit status; that of a shell where a signal ended it or it cannot be started."""
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise HipcacheError("'hipcache run' has no command to run", "write: hipcache run -- ninja")
    settings, fault = _settings(console.environ)
    with TemporaryDirectory(prefix="hipcache-run-", ignore_cleanup_errors=True) as place:
        log = settings.stats_log or Path(place, "log")
        start, began = _size(log), time.monotonic()
        environ = {**console.environ, "HIPCACHE_STATS_LOG": str(log.absolute())}
        live = Line(console.err, console.environ) if not options.no_live else None
        try:
            with _shown(log, start, live):
                status = run_in_foreground(command, environ)
        except OSError as error:
            reason = f"cannot run '{command[0]}': {error.strerror}"
            print(f"hipcache: {reason}\n  check its name and PATH", file=console.err)
            return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_RUN
        took = time.monotonic() - began
        compiles = _read(log, start)
    numbers, causes, line = stats_log.together(compiles), build.causes(compiles), " ".join(command)
    summarized = build.summarized(causes)
    if fault:
        print(f"hipcache: nothing was cached: {fault}", file=console.err)
    else:
        screen = Screen(console.err, console.environ)
        _show(numbers, compiles, summarized, took, screen)
        if note := _note(causes, settings):
            screen.line(f"  note: {note}")
    if numbers.cacheable and not settings.readonly:
        recorded = build.recorded(numbers, summarized, time.time(), took, line, options.label)
        build.save(settings.dir, settings.umask, recorded)
    if options.json:
        write_whole(options.json, json.dumps(_as_json(numbers, causes, command, status, took), indent=2).encode())
    if options.report:
        told = page.Told(f"'{line}'", compiles, Targets().of)
        write_whole(options.report, page.page(told).encode(errors="backslashreplace"))
    return status


def _note(causes: Sequence[Cause], settings: Config) -> str:
    """What `explain` advises for an object that is new."""
    new = next((cause.objects[0] for cause in causes if cause.name.startswith(FIRST_COMPILE)), "")
    history = History.of_store(settings.dir)
    record = history.load(new) if new else None
    return explain.hint(record, history, settings) if record else ""


def _settings(environ: Mapping[str, str]) -> tuple[Config, ConfigError | None]:
    """And what is wrong with them, which stops no build: its compiles go on without the cache."""
    try:
        return config.load(environ), None
    except ConfigError as fault:
        return Config(dir=Path(os.devnull), readonly=True), fault


def _size(log: Path) -> int:
    """Bytes of a log that may not be there yet."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def _read(log: Path, start: int) -> list[Compile]:
    return list(stats_log.read(log, start)) if _size(log) > start else []


def _compilers() -> int:
    """How many compilers, linkers and their like run below this process."""
    found = {process.number: process for process in processes.running_processes()}
    count = 0
    for process in found.values():
        above: RunningProcess | None = process if process.name.startswith(_COMPILERS) else None
        while above and above.parent != os.getpid():
            above = found.get(above.parent)
        count += above is not None
    return count


@contextmanager
def _shown(log: Path, start: int, live: Line | None) -> Iterator[None]:
    """Keep the live line up to date by a thread of its own."""
    if live is None or not live.possible:
        yield
        return
    ended = threading.Event()

    def follow() -> None:
        at, compiles = start, list[Compile]()
        while not ended.wait(_PAUSE):
            new, at = stats_log.follow(log, at)
            compiles += new
            ends = counted([entry.outcome for entry in compiles]) or "no compile yet"
            saved = human_time(stats_log.together(compiles).seconds_saved)
            live.show(f"hipcache: {ends}; {plural(_compilers(), 'compiler')} running; {saved} saved")

    thread = threading.Thread(target=follow, daemon=True)
    with live:
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def _show(
    numbers: Statistics, compiles: Sequence[Compile], causes: Sequence[Cause], took: float, screen: Screen
) -> None:
    """The summary, on standard error: standard output is the command's."""
    total = sum(numbers.compiles.values())
    if not total:
        screen.line(screen.paint("yellow", "hipcache: the build ran no compile through hipcache"))
        screen.line("  if it should have, set its launcher: see 'hipcache doctor'; nothing to do is no fault")
        return
    saved = screen.paint("green", human_time(numbers.seconds_saved))
    screen.line(f"hipcache: {plural(total, 'compile')} in {human_time(took)}, compile time saved {saved}")
    ends = [entry.outcome for entry in compiles if entry.outcome in numbers.compiles]
    rate = percent(numbers.compiles[HIT], numbers.cacheable)
    screen.line(f"  {counted(ends)}; hit rate {rate}")
    parts = [f"{name} {tally.hits} of {tally.hits + tally.misses}" for name, tally in asked_units(numbers.units)]
    if parts:
        again = sum(unit.hit and bool(unit.why) for entry in compiles for unit in entry.units)
        after = f" (for {again} of these hits the front end ran again)" if again else ""
        screen.line(f"  hits by architecture: {', '.join(parts)}{after}")
    for cause in causes[:_MOST_CAUSES]:
        screen.line(f"  missed: {cause.name}: {plural(cause.units, 'unit')} of {plural(len(cause.objects), 'object')}")
    if len(causes) > _MOST_CAUSES:
        screen.line(f"  and {plural(len(causes) - _MOST_CAUSES, 'more cause')}; --json and --report have all")
    for reason, count in numbers.passed_through.items():
        screen.line(f"  passed through: {plural(count, 'compile')} ({reason}): {ADVICE.get(reason, 'see explain')}")
    for reason, count in numbers.not_kept.items():
        screen.line(f"  compiled but not stored: {plural(count, 'compile')} ({reason})")


def _as_json(
    numbers: Statistics, causes: Sequence[Cause], command: Sequence[str], status: int, took: float
) -> dict[str, object]:
    """`seconds`: wall-clock time of the command."""
    units = {name: {"hits": tally.hits, "misses": tally.misses} for name, tally in numbers.units.items()}
    return {
        "command": list(command),
        "status": status,
        "seconds": round(took, 3),
        "compiles": dict(numbers.compiles),
        "units": units,
        "seconds_saved": round(numbers.seconds_saved, 3),
        "passed_through": dict(numbers.passed_through),
        "not_stored": dict(numbers.not_kept),
        "causes": [cause.as_json() for cause in causes],
    }


_LEAST_ROWS = 5


class Line:
    """A line at the bottom of a terminal on which another program writes, as apt's progress has it: the rows above it
    are a scrolling region of their own (DECSTBM), so that what the program writes never meets it.

    While it is entered, the last row of `out` is its own. `possible`: is `out` a terminal that can do that?
    """

    def __init__(self, out: TextIO, environ: Mapping[str, str]) -> None:
        self._out = out
        self._size = os.terminal_size((0, 0))
        self.possible = out.isatty() and environ.get("TERM", "dumb") != "dumb" and self._now().lines >= _LEAST_ROWS

    def __enter__(self) -> Line:
        self._out.write("\n")  # a row for the line, if the cursor is in the last one
        self._reserve()
        return self

    def __exit__(self, *_: object) -> None:
        rows = self._size.lines
        self._write(f"\x1b7\x1b[r\x1b[{rows};1H\x1b[K\x1b8")

    def show(self, text: str) -> None:
        if self._now() != self._size:
            self._reserve()
        told = text[: self._size.columns - 1]
        self._write(f"\x1b7\x1b[{self._size.lines};1H\x1b[K\x1b[7m{told}\x1b[0m\x1b8")

    def _reserve(self) -> None:
        """Let all rows but the last one scroll, and the cursor stand in them."""
        self._size = self._now()
        self._write(f"\x1b7\x1b[1;{self._size.lines - 1}r\x1b8\x1b[1A")

    def _now(self) -> os.terminal_size:
        try:
            return os.get_terminal_size(self._out.fileno())
        except (OSError, ValueError):
            return shutil.get_terminal_size((0, 0))

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
