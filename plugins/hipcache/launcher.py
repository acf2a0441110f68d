"""`hipcache COMPILER ARGS...`: acts as that compiler, and finishes the user's compile whatever happens."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from hipcache import config as settings
from hipcache import outcome
from hipcache.config import Config
from hipcache.errors import ConfigError, JobFailed, PassThrough, StoreError
from hipcache.outcome import CompileOutcome
from hipcache.planning import tools
from hipcache.planning.command import Command, parse
from hipcache.report import statistics

if TYPE_CHECKING:
    from types import FrameType

    from hipcache.processes.runner import Runner
    from hipcache.report.history import Record

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """A signal asked hipcache to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def launch(argv: list[str], environ: Mapping[str, str]) -> int:
    """The exit status of the compile; does not return where the user's command takes this process over."""
    try:
        config = settings.load(environ)
    except ConfigError:
        _become(argv)
    if config.disable:
        _become(argv)
    words = tools.behind(argv)
    command: Command | None = None
    try:
        cwd = os.getcwd()
        if tools.is_hipcc(words[0]):
            from hipcache.planning import wrapper

            wrapper.check(words, environ)
        else:
            command = parse(words, cwd, environ, typed=tuple(argv))
    except PassThrough as left:
        _leave(argv, config, left)
    except OSError:
        _become(argv)
    return _compile(argv, command, config, environ, cwd)


def _compile(argv: list[str], command: Command | None, config: Config, environ: Mapping[str, str], cwd: str) -> int:
    """`command` is None where hipcc must say it first."""
    from hipcache.compile import compile
    from hipcache.engine import open_engine
    from hipcache.processes.runner import Killed

    runner: Runner | None = None
    try:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _interrupt)
        engine = open_engine(config, environ)
        runner = engine.runner
        if command is None:
            from hipcache.planning.wrapper import unwrap

            command, engine = unwrap(engine, tools.behind(argv), cwd, runner, tuple(argv))
        done = compile(engine, command, _columns(environ))
    except Interrupted as interrupted:
        _end(runner)
        _die(interrupted.number)
    except PassThrough as left:
        _end(runner)
        _leave(argv, config, left)
    except StoreError as error:
        _end(runner)
        _leave(argv, config, PassThrough("store", error.message))
    except (JobFailed, Killed) as failed:
        _end(runner)
        return _run_after_failure(argv, config, str(failed))
    except Exception as error:  # the user's compile comes first; the fault is counted and logged
        _end(runner)
        _log_fault(config, error)
        _leave(argv, config, PassThrough("internal", f"{type(error).__name__}: {error}"))
    if done.messages:
        try:
            _write_messages(os.fsencode(done.messages))
        except OSError:
            _become(argv)  # nobody reads them, or the disk is full: the compiler knows how it ends then
    _record(config, done.outcome, argv, done.record)
    return 0


def _write_messages(messages: bytes) -> None:
    """All of them, also to a pipe that does not block (the terminal of many a program that runs builds)."""
    sys.stderr.flush()
    rest = memoryview(messages)
    while rest:
        try:
            rest = rest[os.write(2, rest) :]
        except BlockingIOError:
            select.select([], [2], [])


def _end(runner: Runner | None) -> None:
    if runner is not None:
        runner.kill()


def _columns(environ: Mapping[str, str]) -> int | None:
    """The width clang would wrap its messages at, or None where they do not go to a terminal."""
    if not sys.stderr.isatty():
        return None
    try:
        return int(environ.get("COLUMNS", "")) or 0
    except ValueError:
        pass
    try:
        return os.get_terminal_size(2).columns
    except OSError:
        return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Once is enough: a second one (timeout(1) and terminals send two) must not break the cleaning up.
    for other in _SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise Interrupted(number)


def _die(number: int) -> NoReturn:
    """End as the compiler would: by the signal itself, so that the shell and make see it."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def _leave(argv: list[str], config: Config, left: PassThrough) -> NoReturn:
    end = CompileOutcome(outcome.PASSED_THROUGH, reason=left.reason, detail=left.detail)
    _record(config, end, argv)
    _become(argv)


def _become(argv: list[str]) -> NoReturn:
    """Run the user's own command in place of this process."""
    sys.stdout.flush()
    sys.stderr.flush()
    for number in _SIGNALS:
        if signal.getsignal(number) is _interrupt:
            signal.signal(number, signal.SIG_DFL)
    # Python ignores these two for itself; what is ignored stays so over an exec.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            _become_script(argv)
        hint = "is the compiler's name right, and is it on PATH? 'hipcache doctor' lists the compilers it finds"
        print(f"hipcache: cannot run the compiler '{argv[0]}': {error.strerror}\n  {hint}", file=sys.stderr)
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _become_script(argv: list[str]) -> None:
    """A script without a `#!` line: the kernel refuses it, and every shell runs it. Returns where /bin/sh cannot."""
    import shutil

    path = argv[0] if "/" in argv[0] else shutil.which(argv[0])
    with suppress(OSError):
        os.execv("/bin/sh", ["/bin/sh", str(path), *argv[1:]])


def _run_after_failure(argv: list[str], config: Config, what: str) -> int:
    """A job failed: the user's own command says why, in its own words."""
    process = subprocess.Popen(argv)
    try:
        status = process.wait()
    except Interrupted as interrupted:
        for pid in [*_descendants(process.pid), process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, interrupted.number)
        process.wait()
        _die(interrupted.number)
    if status == 0:
        end = CompileOutcome(outcome.PASSED_THROUGH, reason="job_failed_alone", detail=what)
    else:
        end = CompileOutcome(outcome.FAILED, detail=what)
    _record(config, end, argv)
    if status < 0:
        _die(-status)
    return status


def _descendants(pid: int) -> list[int]:
    """The processes below `pid`: a driver that is ended leaves its running job behind."""
    found: list[int] = []
    with suppress(OSError):
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = [int(child) for child in file.read().split()]
        for child in children:
            found += [*_descendants(child), child]
    return found


def _record(config: Config, end: CompileOutcome, argv: list[str], record: Record | None = None) -> None:
    if not config.readonly:
        statistics.record(config.dir, end)
        if end.reason != "not_hip":
            from hipcache.report.history import History, Record  # which takes a while
        if record is None and end.reason != "not_hip":
            output = argv[argv.index("-o") + 1 :][:1] if "-o" in argv else []
            path = os.path.join(os.getcwd(), *output) if output else ""
            ended = end.outcome, end.reason, end.detail, end.notes
            record = Record(path, time.time(), tuple(argv), os.getcwd(), *ended, {}, ())
        if record is not None:
            History(config.dir).save(record)
    if config.log:
        _log(config, f"{end.outcome} {end.reason} {end.detail} {' '.join(argv)}".replace("\n", " "))


def _log(config: Config, text: str) -> None:
    if not config.log:
        return
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {os.getpid()} {text}\n"
    try:
        with config.log.open("a", encoding="utf-8", errors="surrogateescape") as log:
            log.write(line)
    except OSError as error:
        print(f"hipcache: cannot write the log '{config.log}': {error.strerror}", file=sys.stderr)


def _log_fault(config: Config, error: Exception) -> None:
    import traceback

    _log(config, "fault in hipcache: " + "".join(traceback.format_exception(error)).replace("\n", " | "))
