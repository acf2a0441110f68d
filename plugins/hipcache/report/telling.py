"""Reports a compile, for every front end: its messages and their width, its line in the log, its statistics and its
history."""

from __future__ import annotations

import os
import re
import select
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hipcache.base.files import Descriptor
from hipcache.base.values import replace
from hipcache.config import Config
from hipcache.report import outcome, statistics
from hipcache.report.outcome import CACHEABLE, CompileOutcome, is_check

if TYPE_CHECKING:
    from hipcache.report.history import Record

_LOG_WAITS, _LOG_MILLISECONDS = 100, 10  # in all a second


def columns(environ: Mapping[str, str]) -> int | None:
    """The width of messages by COLUMNS (0: it says none), or None if they do not go to a terminal. Whether the compiler
    asks the terminal, too, and whether they have colours: `clang/colours`."""
    if not os.isatty(2):
        return None
    found = re.match(r"[ \t-\r]*\+?([0-9]+)", environ.get("COLUMNS", ""))  # as atoi
    return int(found[1]) if found else 0


def say(text: str | bytes) -> None:
    """All of it to standard error, in one piece if possible: threads do not mix their lines. Also to a pipe that does
    not block (the terminal of many a program that runs builds). Bytes are what a compiler said. Raises OSError."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.flush()
    rest = memoryview(text if isinstance(text, bytes) else os.fsencode(text))
    while rest:
        try:
            rest = rest[os.write(2, rest) :]
        except BlockingIOError:
            select.select([], [2], [])


def record(
    config: Config,
    end: CompileOutcome,
    command: Sequence[str],
    cwd: str,
    told: Record | None = None,
    began: float | None = None,
) -> None:
    """Count a compile that ended, and note and log how. `command`: what the build tool ran, in `cwd`; `told`: what
    the engine knows about it, None if it left the compile to the compiler; `began`: when, in seconds of the epoch
    (None: with this process)."""
    path = told.object if told else os.path.join(cwd, _output(command))
    end = replace(end, check=is_check(path))
    if not config.readonly:
        took = _took(began) if end.outcome in CACHEABLE else 0.0
        statistics.record(config.dir, replace(end, took=took), config.umask)
        if end.reason not in ("not_hip", "cxx_cache"):
            from hipcache.report.history import Record  # which takes a while

            if told is None:
                path = os.path.join(cwd, output) if (output := _output(command)) else ""
                ended = end.outcome, end.reason, end.detail, end.notes
                told = Record(path, time.time(), tuple(command), cwd, *ended, {}, ())
            _save(config, replace(told, seconds=round(took, 3)))
    if config.log or config.stats_log:
        from hipcache.report import stats_log  # only for who wants one

        now = time.time()
        began = now - _age() if began is None else began
        line = partial(
            stats_log.line, end, began=began, now=now, cwd=cwd, path=told.object if told else _output(command)
        )
        _log_line(config, line, f"{end.outcome} {end.reason} {end.detail} {' '.join(command)}", command)


def _save(config: Config, told: Record) -> None:
    from hipcache.report.history import History
    from hipcache.store.local import LocalStore

    # Nothing makes room for this but the compile's own store, at its end.
    store = LocalStore(config.dir, max_bytes=0, umask=config.umask, defers_upkeep=True)
    History(store.notes()).save(told)


def indirect(config: Config, told: Record, why: str, began: float | None = None) -> None:
    """Note and log why the same command has no direct hit next time. Nothing to tell if `why` is empty. `began`: as of
    `record`."""
    if why:
        note = f"the next compile of this command is no direct hit: {why}"
        _save(config, replace(told, notes=(*told.notes, note), seconds=round(_took(began), 3)))
        log(config, f"{note} ({' '.join(told.command)})")


def _took(began: float | None) -> float:
    """Of a compile; no longer than this process is there, whatever became of the clock."""
    return min(_age(), max(0.0, time.time() - began)) if began is not None else _age()


def served(config: Config, counted: bytes, command: Sequence[str], cwd: str, began: float) -> None:
    """Log a direct hit in this process, which is counted already. `counted`: as `native.DirectHit` has it."""
    if config.log or config.stats_log:
        from hipcache.report import stats_log

        line = partial(stats_log.served, counted, began=began, now=time.time(), cwd=cwd, path=_output(command))
        _log_line(config, line, f"{outcome.HIT}   {' '.join(command)}", command)


def _log_line(config: Config, line: Callable[..., str], text: str, command: Sequence[str]) -> None:
    """`line`: makes one of the statistics log, with the command in it or None."""
    if config.stats_log:
        _append(config.stats_log, line(command=None))
    if config.log and config.log_format == "json":
        _append(config.log, line(command=command))
    else:
        log(config, text)


def _output(command: Sequence[str]) -> str:
    return next(iter(command[command.index("-o") + 1 :]), "") if "-o" in command else ""


def _age() -> float:
    """Seconds since this process was started (also as the native launcher); 0 if that is not known.

    By the clock, which libfaketime makes another one, or by the kernel's file, which lxcfs makes that of a container
    (less than the start of a process, which counts from the start of the machine)."""
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            ticks = int(file.read().rpartition(")")[2].split()[19])  # proc(5): starttime, since the system began
        with open("/proc/uptime", encoding="ascii") as file:
            uptime = float(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    ages = (now - ticks / os.sysconf("SC_CLK_TCK") for now in (time.clock_gettime(time.CLOCK_BOOTTIME), uptime))
    return min((age for age in ages if age >= 0), default=0.0)


def log(config: Config, text: str) -> None:
    """One line, where the user wants a log."""
    if config.log and config.log_format == "json":
        import json

        _append(config.log, json.dumps({"time": round(time.time(), 6), "pid": os.getpid(), "text": text}))
    elif config.log:
        _append(config.log, f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {os.getpid()} {text}".replace("\n", " "))


def _append(path: Path, line: str) -> None:
    """Append the line with one write if there is room, so that compiles that run at once do not mix their lines. A pipe
    may have no reader, or one that has stopped to read: the compile waits for it no longer than a second."""
    text = f"{line}\n".encode("utf-8", "surrogateescape")
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
        with Descriptor(os.open(path, flags, 0o666)) as fd:
            _write_soon(fd, text)
    except OSError as error:
        print(f"hipcache: cannot write the log '{path}': {error.strerror}", file=sys.stderr)


def _write_soon(fd: int, text: bytes) -> None:
    """As `write_soon` of native/launcher/logs.c: all of it, or nothing in a file that has no room. Raises OSError."""
    rest, waits = memoryview(text), 0
    ready = select.poll()
    ready.register(fd, select.POLLOUT)
    try:
        while rest:
            try:
                rest = rest[os.write(fd, rest) :]
            except BlockingIOError:
                if waits == _LOG_WAITS:
                    raise
                waits += 1
                ready.poll(_LOG_MILLISECONDS)
    except OSError:
        written, found = len(text) - len(rest), os.fstat(fd)
        if written and stat.S_ISREG(found.st_mode) and os.lseek(fd, 0, os.SEEK_CUR) == found.st_size:
            os.ftruncate(fd, found.st_size - written)  # or the next line would go on in this one
        raise


def log_fault(config: Config, error: Exception) -> None:
    import traceback

    log(config, "fault in hipcache: " + "".join(traceback.format_exception(error)).replace("\n", " | "))
