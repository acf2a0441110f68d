"""What is told of a compile, whichever front ran it: its messages, how wide they may be, its line in the log, its
place in the statistics and in the history."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hipcache.config import Config
from hipcache.outcome import CompileOutcome
from hipcache.report import statistics

if TYPE_CHECKING:
    from hipcache.report.history import Record


def columns(environ: Mapping[str, str]) -> int | None:
    """The width clang would wrap its messages at (0: it would not), or None where they do not go to a terminal. With
    glibc it asks COLUMNS alone, not the terminal. Whether they have colours is another question (`driver.ask`)."""
    if not os.isatty(2):
        return None
    width = environ.get("COLUMNS", "")
    return int(width) if width.isdecimal() else 0


def say(text: str) -> None:
    """All of it to standard error, in one piece where that takes it: threads do not mix their lines. Also to a pipe
    that does not block (the terminal of many a program that runs builds). Raises OSError."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    rest = memoryview(os.fsencode(text))
    while rest:
        try:
            rest = rest[os.write(2, rest) :]
        except BlockingIOError:
            select.select([], [2], [])


def record(config: Config, end: CompileOutcome, command: Sequence[str], cwd: str, told: Record | None = None) -> None:
    """Count a compile that ended, and note and log how. `command`: what the build tool ran, in `cwd`; `told`: what
    the engine knows about it, None where it left the compile to the compiler."""
    if not config.readonly:
        statistics.record(config.dir, end, config.umask)
        if end.reason != "not_hip":
            from hipcache.report.history import History, Record  # which takes a while
            from hipcache.store.layout import HISTORY
            from hipcache.store.local import LocalStore

            if told is None:
                output = command[command.index("-o") + 1 :][:1] if "-o" in command else ()
                path = os.path.join(cwd, *output) if output else ""
                ended = end.outcome, end.reason, end.detail, end.notes
                told = Record(path, time.time(), tuple(command), cwd, *ended, {}, ())
            store = LocalStore(config.dir, max_bytes=config.max_size, umask=config.umask)  # whatever its records need
            History(store.notes(HISTORY)).save(told)
    log(config, f"{end.outcome} {end.reason} {end.detail} {' '.join(command)}")


def log(config: Config, text: str) -> None:
    """One line, where the user wants a log."""
    if not config.log:
        return
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {os.getpid()} {text}".replace("\n", " ")
    try:
        with config.log.open("a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(line + "\n")
    except OSError as error:
        print(f"hipcache: cannot write the log '{config.log}': {error.strerror}", file=sys.stderr)


def log_fault(config: Config, error: Exception) -> None:
    import traceback

    log(config, "fault in hipcache: " + "".join(traceback.format_exception(error)).replace("\n", " | "))
