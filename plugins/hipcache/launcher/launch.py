"""`hipcache COMPILER ARGS...`: acts as that compiler, and finishes the user's compile whatever happens."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from hipcache import config as settings
from hipcache.config import Config
from hipcache.errors import CommandFailed, ConfigError, HipcacheError, JobFailed, PassThrough, Refused, left_by
from hipcache.inputs.trace import RACY
from hipcache.launcher import afterwards, ending
from hipcache.launcher.ending import Interrupted, become, die, end_by_signals, take_signals
from hipcache.loop import kinds
from hipcache.planning import tools
from hipcache.planning.command import Command
from hipcache.report import conditions, notices, outcome, telling
from hipcache.report.conditions import Condition
from hipcache.report.outcome import CompileOutcome

if TYPE_CHECKING:
    from hipcache.engine import Engine
    from hipcache.processes.runner import Runner


def launch(argv: list[str], environ: Mapping[str, str], *, racy: float = RACY) -> int:
    """The exit status of the compile; does not return where the user's command takes this process over. `racy`: see
    `Engine`."""
    try:
        status = _launch(argv, environ, racy)
        end_by_signals()  # all is done
        return status
    except Interrupted as interrupted:
        die(interrupted.number)


def _launch(argv: list[str], environ: Mapping[str, str], racy: float) -> int:
    fault: ConfigError | None = None
    config = Config(dir=Path(os.devnull), disable=True)
    try:
        config = settings.load(environ)
    except ConfigError as error:
        fault = error
    # A program that is not there is no compile to count.
    if (config.disable and not fault) or not os.access(tools.which(argv[0], "", environ), os.X_OK):
        become(argv)
    try:
        cwd = os.getcwd()
        commands = kinds.read(tuple(argv), cwd, environ, config)
        _check_temporary_directory(environ)
    except Refused as refused:
        return _refuse(argv, config, refused)
    except PassThrough as left:
        _leave(argv, config, left)
    except OSError:
        become(argv)
    # A compile that is none of ours says nothing: configure scripts take each word for a warning about their flag.
    if fault:
        _notice([conditions.of_settings(fault)], environ)
        become(argv)
    return _compile(argv, commands, config, environ, cwd, racy)


def _check_temporary_directory(environ: Mapping[str, str]) -> None:
    """Raises PassThrough where the compiler will not be able to write its own temporary files. LLVM takes the first
    of these variables that is set (llvm/lib/Support/Unix/Path.inc: `getEnvTempDir`)."""
    place = next((environ[name] for name in ("TMPDIR", "TMP", "TEMP", "TEMPDIR") if name in environ), "/tmp")
    if not (os.path.isdir(place or ".") and os.access(place or ".", os.W_OK | os.X_OK)):
        raise PassThrough("temporary_directory", f"'{place}'")


def _notice(found: Iterable[Condition], environ: Mapping[str, str]) -> None:
    """Say what nobody has said in this build."""
    text = notices.new_ones(found, environ)
    with suppress(OSError):
        telling.say(text)


def _compile(
    argv: list[str], commands: tuple[Command, ...], config: Config, environ: Mapping[str, str], cwd: str, racy: float
) -> int:
    """`commands`: as of `kinds.read`."""
    from hipcache.engine.opening import open_engine
    from hipcache.loop import several
    from hipcache.processes.runner import Killed

    runner: Runner | None = None
    try:
        take_signals()
        _notice(conditions.of(config), environ)
        engine = open_engine(config, environ, racy=racy)
        runner = engine.runner
        commands, engine = _unwrapped(engine, argv, commands, cwd)
        columns = telling.columns(environ)
        done, whole = several.make_each(engine, commands, columns)
    except Interrupted:
        _end(runner)
        raise
    except CommandFailed as failed:
        _end(runner)
        return _tell_failure(argv, config, failed)
    except (JobFailed, Killed) as failed:
        _end(runner)
        status = _run_after_failure(argv, config, str(failed))
        if isinstance(failed, JobFailed):
            _hint(commands, failed)
        return status
    except Exception as error:  # the user's compile comes first; the fault is counted and logged
        _end(runner)
        left = left_by(error)
        if left.reason == "internal":
            telling.log_fault(config, error)
        if left.reason == "store_full":  # it has room by now for all but this compile
            _notice([conditions.full(config, left.detail)], environ)
        _leave(argv, config, left)
    _say(argv, "".join(one.messages for one in done))
    for command, one in zip(commands, done, strict=True):
        telling.record(config, one.outcome, command.typed, cwd, one.record)
    # Who wants nothing of the store, or leaves it as it is, is served by the engine.
    if whole and not (config.readonly or config.recache):
        afterwards.remember_whole(engine, whole, done, argv, config, environ, cwd, terminal=columns is not None)
    if config.verify and all(one.outcome.outcome == outcome.HIT for one in done):
        return afterwards.verify(engine, commands, argv, config, cwd) if config.is_drawn() else 0
    return 0


def _unwrapped(
    engine: Engine, argv: Sequence[str], commands: tuple[Command, ...], cwd: str
) -> tuple[tuple[Command, ...], Engine]:
    """The commands themselves, or those that hipcc runs, and the engine with the environment for them."""
    if commands:
        return commands, engine
    from hipcache.planning.wrapper import unwrap

    return unwrap(engine, tools.behind(argv), cwd, engine.runner, tuple(argv))


def check_served(argv: list[str], environ: Mapping[str, str]) -> int:
    """`argv` was a direct hit just now, and it is its turn to be compared with a compile anew (HIPCACHE_VERIFY)."""
    from hipcache.engine.opening import open_engine

    config, cwd = settings.load(environ), os.getcwd()
    engine = open_engine(config, environ)
    try:
        commands, engine = _unwrapped(engine, argv, kinds.read(tuple(argv), cwd, environ, config), cwd)
    except HipcacheError as error:
        telling.log(config, f"not compared: {error}")
        return 0
    return afterwards.verify(engine, commands, argv, config, cwd)


def _say(argv: list[str], messages: str) -> None:
    """What the passes said. If nobody reads it, or the disk is full, the compiler knows how it ends then."""
    if messages:
        try:
            telling.say(messages)
        except OSError:
            become(argv)


def _end(runner: Runner | None) -> None:
    if runner is not None:
        runner.kill()


def _leave(argv: list[str], config: Config, left: PassThrough) -> NoReturn:
    if not config.disable:
        end = CompileOutcome(outcome.PASSED_THROUGH, reason=left.reason, detail=left.detail)
        telling.record(config, end, argv, os.getcwd())
    become(argv)


def _refuse(argv: list[str], config: Config, refused: Refused) -> int:
    telling.record(config, CompileOutcome(outcome.FAILED, detail=refused.message), argv, os.getcwd())
    with suppress(OSError):
        telling.say(f"hipcache: {refused}\n")
    return 1


def _hint(commands: Sequence[Command], failed: JobFailed) -> None:
    """What to write instead, where the compiler has only said that it is wrong."""
    for hint in filter(None, (command.hint(os.fsdecode(failed.said)) for command in commands)):
        with suppress(OSError):
            telling.say(f"hipcache: {hint}\n")


def _tell_failure(argv: list[str], config: Config, failed: CommandFailed) -> int:
    """The command has failed as the compiler's would have, so it need not run again."""
    try:
        telling.say(failed.text)
    except OSError:
        become(argv)
    telling.record(config, CompileOutcome(outcome.FAILED, detail=str(failed)), argv, os.getcwd())
    return failed.status


def _run_after_failure(argv: list[str], config: Config, what: str) -> int:
    """A job failed: the user's own command says why, in its own words."""
    status = ending.run(argv)
    if status == 0:
        end = CompileOutcome(outcome.PASSED_THROUGH, reason="job_failed_alone", detail=what)
    else:
        end = CompileOutcome(outcome.FAILED, detail=what)
    telling.record(config, end, argv, os.getcwd())
    if status < 0:
        die(-status)
    return status
