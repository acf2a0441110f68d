"""One compile or link through the engine, called from SCons' worker threads.

Nothing here changes the process: the directory and the environment of a compile come as arguments. The user's settings
(HIPCACHE_*, HOME and XDG_*) are those that SCons was started with, under those in `env["ENV"]`.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hipcache import config as settings
from hipcache.app import front
from hipcache.app.front import Compiled
from hipcache.base import features
from hipcache.base.errors import (
    CommandFailed,
    CompilerFails,
    ConfigError,
    HipcacheError,
    JobFailed,
    PassThrough,
    StoreError,
    pass_through_after,
)
from hipcache.base.values import dataclass, replace
from hipcache.build.context import Context, open_context
from hipcache.clang import script, tools
from hipcache.clang.command import Command, parse
from hipcache.config import Config
from hipcache.processes import encode
from hipcache.processes.runner import Killed
from hipcache.report import conditions, outcome, telling
from hipcache.report.conditions import Condition
from hipcache.report.history import Record
from hipcache.report.outcome import CompileOutcome
from SCons.Errors import UserError
from SCons.Util import is_String

from hipcache_scons import commands, dependencies, direct, shadows

# Taken once, when SCons reads the SConstruct.
STARTED_WITH = {name: value for name, value in os.environ.items() if name.startswith(("HIPCACHE", "XDG_", "HOME"))}
_ENDED_BY = (-signal.SIGINT, -signal.SIGTERM, -signal.SIGHUP)


@dataclass(frozen=True)
class Cache:
    """The settings in force for one set of variables, and the context under them (None: the store cannot be used).
    `known`: those variables, and the user's settings that SCons was started with; `began`: when the compile or link
    began that is under way, in seconds of the epoch."""

    config: Config
    context: Context | None
    environ: Mapping[str, str]
    known: Mapping[str, str]
    began: float | None = None


@dataclass(frozen=True)
class Ended:
    """The end of a compile or a link. `files` are absolute paths of what a compile read; `left`: why the user's own
    command must be run (`tell_plain` tells the cache how that ended); `status` and `why` are set if nothing is to be
    run any more: a signal ended it, or it failed and has said so."""

    files: tuple[str, ...] = ()
    left: PassThrough | JobFailed | None = None
    status: int = 0
    why: str = ""


_open: dict[frozenset[tuple[str, str]], Cache] = {}
_lock = threading.Lock()
_said: set[str] = set()
_saying = threading.Lock()


def open_cache(environ: Mapping[str, str]) -> Cache:
    """One for each set of variables: clones of an Environment share it."""
    key = frozenset(environ.items())
    with _lock:
        if key not in _open:
            _open[key] = _open_cache(environ)
        return _open[key]


def _open_cache(environ: Mapping[str, str]) -> Cache:
    known = {**STARTED_WITH, **environ}
    try:
        config = settings.load(known)
    except ConfigError as error:
        _notice([conditions.of_wrong_settings(error)])
        return Cache(Config(dir=Path(os.devnull), disable=True, readonly=True), None, environ, known)
    _notice(conditions.under(config))
    try:
        context = replace(open_context(config, known), environ=environ)
    except StoreError as error:
        say(f"hipcache: {error}\n  this build goes on without the cache\n")
        context = None
    return Cache(config, context, environ, known)


def _notice(found: Iterable[Condition]) -> None:
    """Once in this process, which is the build."""
    with _saying:
        new = [condition for condition in found if condition.identity not in _said]
        _said.update(condition.identity for condition in new)
    for condition in new:
        say(f"hipcache: {condition}\n")


def left_to_scons(env: Any, action: Any, executor: Any) -> Ended | None:
    """For a command that only SCons can run as the project wants it."""
    variable = commands.spawned_by(env, action, executor)
    return Ended(left=PassThrough("scons_spawn", variable)) if variable else None


def compile(cache: Cache, argv: tuple[str, ...], cwd: str) -> Ended:
    """Compile with the cache, and count it. Never raises: whatever was not foreseen leaves the compile to the
    compiler."""
    cache = replace(cache, began=time.time())
    found = direct.find(cache.config, cache.context, cache.known, argv, cwd) if cache.context else None
    if found is None:
        return _guarded(cache, argv, cwd, _compile)
    telling.served(cache.config, found.counted, argv, cwd, cache.began or time.time())
    say(found.messages)
    served = Ended(direct.files_of(found))
    return _guarded(cache, argv, cwd, lambda *of: _confirmed(served, *of))


def link(cache: Cache, argv: tuple[str, ...], cwd: str) -> Ended:
    """The same for a link of device code."""
    return _guarded(replace(cache, began=time.time()), argv, cwd, _link)


def _guarded(
    cache: Cache, argv: tuple[str, ...], cwd: str, story: Callable[[Cache, Context, tuple[str, ...], str], Ended]
) -> Ended:
    if cache.context is None:
        return Ended(left=PassThrough("store", "it cannot be opened"))
    try:
        return story(cache, cache.context, argv, cwd)
    except CommandFailed as failed:
        say(encode(failed.text))
        telling.record(cache.config, CompileOutcome(outcome.FAILED, detail=str(failed)), argv, cwd, began=cache.began)
        return Ended(status=failed.status, why=f"Error {failed.status}")
    except JobFailed as failed:
        return _interrupted(-failed.status) if failed.status in _ENDED_BY else Ended(left=failed)
    except Killed:
        return _interrupted(signal.SIGINT)
    except Exception as error:  # the user's compile comes first; the fault is counted and logged
        left = pass_through_after(error)
        if left.reason == "internal":
            telling.log_fault(cache.config, error)
        _notice(conditions.of_left(cache.config, left))
        if left.reason == "plan":
            from hipcache.app import trial  # once in a build

            trial.tell_of_plan(argv, cache.environ)
        return Ended(left=left)


def _interrupted(number: int) -> Ended:
    return Ended(status=128 + number, why=f"interrupted by signal {number}")


def _command(cache: Cache, context: Context, argv: tuple[str, ...], cwd: str) -> tuple[Command, Context]:
    """The command that the compiler gets, and the context with the environment for it."""
    words = tools.behind(argv)
    if not tools.is_hipcc(words[0]):
        return parse(words, cwd, cache.environ), context
    script.check(words, cache.environ)
    (command, *more), context = script.unwrap(context, words, cwd, context.runner, argv)
    if more:
        raise PassThrough("several_sources", "in one action")
    return command, context


def _compile(cache: Cache, context: Context, argv: tuple[str, ...], cwd: str) -> Ended:
    command, context = _command(cache, context, argv, cwd)
    if command.links or command.makes_program:
        raise PassThrough("link")
    columns = telling.columns(cache.environ)
    (done,), whole = front.make_each(context, (command,), columns)
    shadows.note(context, done.record.object, shadows.read_sets(context, done.record), argv)
    files = tuple(dict.fromkeys(dependencies.locate(name, cwd) for name in done.files))
    record = _tell(cache, done, argv, cwd)
    if direct.may_be(cache.config):
        try:
            terminal = columns is not None
            why = direct.remember(
                cache.config, context, cache.known, done, record, cwd, whole, files, terminal=terminal
            )
            telling.indirect(cache.config, record, why, cache.began)
            context.store.pack()
        except Exception as error:  # the compile is done, whatever happens here
            telling.log_fault(cache.config, error)
    is_hit = done.outcome.outcome == outcome.HIT
    return _confirmed(Ended(files), cache, context, argv, cwd) if is_hit else Ended(files)


def _confirmed(served: Ended, cache: Cache, context: Context, argv: tuple[str, ...], cwd: str) -> Ended:
    """A hit; if it is drawn (HIPCACHE_VERIFY), compared with what the compiler makes."""
    if not cache.config.is_drawn():
        return served
    try:
        command, context = _command(cache, context, argv, cwd)
        for check in features.modules("HIT_CHECK"):
            check.compare(context, [command], direct.kept_as(argv), cwd, cache.config)
    except CompilerFails:
        return Ended(left=JobFailed("the compiler, which should confirm a hit,", 1))
    except HipcacheError as error:
        telling.log(cache.config, f"not compared: {error}")
    return served


def _link(cache: Cache, context: Context, argv: tuple[str, ...], cwd: str) -> Ended:
    command, context = _command(cache, context, argv, cwd)
    if not command.links:
        raise PassThrough("link")
    (done,), _ = front.make_each(context, (command,), telling.columns(cache.environ))
    _tell(cache, done, argv, cwd)
    return Ended()


def _tell(cache: Cache, done: Compiled, argv: tuple[str, ...], cwd: str) -> Record:
    say(done.said)
    record = replace(done.record, command=argv)
    telling.record(cache.config, done.outcome, argv, cwd, record, cache.began)
    return record


def is_on(env: Any, cache: Cache) -> bool:
    """Is the cache to be tried for a command of this Environment?"""
    return is_wanted(env) and not cache.config.disable


def is_wanted(env: Any) -> bool:
    """The variable HIPCACHE; a text, as from the command line, is read as an environment variable of hipcache's is.
    Raises UserError if that is neither yes nor no."""
    value = env.get("HIPCACHE", True)
    if not is_String(value):
        return bool(value)
    text = env.subst(value).strip()
    flag = settings.FLAGS.get(text.lower()) if text else True
    if flag is None:
        raise UserError(f"HIPCACHE: '{text}' is neither yes nor no\n  write it as in HIPCACHE=False or HIPCACHE='no'")
    return flag


def tell_plain(cache: Cache, argv: tuple[str, ...], cwd: str, ended: Ended, failed: bool) -> None:
    """Count a compile that the user's own command did in the end."""
    left = ended.left
    if isinstance(left, JobFailed):
        if failed:
            end = CompileOutcome(outcome.FAILED, detail=str(left))
        else:
            end = CompileOutcome(outcome.PASSED_THROUGH, reason="job_failed_alone", detail=str(left))
    else:
        reason, detail = (left.reason, left.detail) if left else ("internal", "")
        end = CompileOutcome(outcome.PASSED_THROUGH, reason=reason, detail=detail)
    telling.record(cache.config, end, argv, cwd, began=time.time())


def say(text: str | bytes) -> None:
    """To standard error; a build that nobody listens to goes on."""
    with suppress(OSError):
        telling.say(text)
