"""The end of a command that hipcache does not compile: the compiler runs it, and hipcache counts it with the reason."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from hipcache.app import ending
from hipcache.app.ending import become, die
from hipcache.base.errors import CommandFailed, JobFailed, PassThrough, Refused, pass_through_after
from hipcache.base.values import dataclass
from hipcache.clang import tools
from hipcache.clang.command import Command
from hipcache.config import Config
from hipcache.processes import encode
from hipcache.report import conditions, outcome, telling
from hipcache.report.outcome import CompileOutcome


@dataclass(frozen=True)
class Call:
    """The command that the build tool runs: its words, the directory, the environment, and the user's settings."""

    argv: list[str]
    cwd: str
    environ: Mapping[str, str]
    config: Config


_VARIABLE = "HIPCACHE_CXX_CACHE"


def after(error: Exception, call: Call, commands: Sequence[Command]) -> int:
    """The status of the user's command, of which `error` has ended the compiles; does not return if the command takes
    this process over."""
    from hipcache.processes.runner import Killed  # a command that is none of ours has no processes

    if isinstance(error, CommandFailed):
        return _tell_failure(call, error)
    if isinstance(error, (JobFailed, Killed)):
        status = _run_after_failure(call, str(error))
        if isinstance(error, JobFailed):
            _hint(commands, error)
        return status
    left = pass_through_after(error)  # the user's compile comes first; the fault is counted and logged
    if left.reason == "internal":
        telling.log_fault(call.config, error)
    conditions.tell(conditions.of_left(call.config, left), call.environ)
    if left.reason == "plan":
        from hipcache.app import trial  # once in a build

        trial.tell_of_plan(call.argv, call.environ)
    leave(call, left)


def leave(call: Call, left: PassThrough) -> NoReturn:
    cache = _cxx_cache(call) if left.reason == "not_hip" else ""
    left = PassThrough("cxx_cache", left.detail) if cache else left
    if not call.config.disable:
        _count(call, CompileOutcome(outcome.PASSED_THROUGH, reason=left.reason, detail=left.detail))
    if cache:
        os.putenv(_VARIABLE, "none")  # one that leads back here cannot go in a circle
    become([*filter(None, [cache]), *call.argv])


def _cxx_cache(call: Call) -> str:
    """The cache that is to have a compile that is not of HIP; empty where there is none, or the command names one."""
    cache, argv = call.config.cxx_cache, call.argv
    is_compile = "-c" in argv and len(tools.behind(argv)) == len(argv)
    return cache if cache and is_compile and tools.which(cache, call.cwd, call.environ) else ""


def refuse(call: Call, refused: Refused) -> int:
    _count(call, CompileOutcome(outcome.FAILED, detail=refused.message))
    with suppress(OSError):
        telling.say(f"hipcache: {refused}\n")
    return 1


def _count(call: Call, end: CompileOutcome) -> None:
    telling.record(call.config, end, call.argv, call.cwd)


def _hint(commands: Sequence[Command], failed: JobFailed) -> None:
    """Print what to write instead, if the compiler only says that an option is wrong."""
    for hint in filter(None, (command.hint(os.fsdecode(failed.said)) for command in commands)):
        with suppress(OSError):
            telling.say(f"hipcache: {hint}\n")


def _tell_failure(call: Call, failed: CommandFailed) -> int:
    """The command failed exactly as the compiler's would have, so it does not run again."""
    try:
        telling.say(encode(failed.text))
    except (OSError, ValueError):
        become(call.argv)
    _count(call, CompileOutcome(outcome.FAILED, detail=str(failed)))
    return failed.status


def _run_after_failure(call: Call, what: str) -> int:
    """A job failed: run the user's own command, which prints the error."""
    status = ending.run(call.argv)
    if status == 0:
        end = CompileOutcome(outcome.PASSED_THROUGH, reason="job_failed_alone", detail=what)
    else:
        end = CompileOutcome(outcome.FAILED, detail=what)
    _count(call, end)
    if status < 0:
        die(-status)
    return status
