"""A command that is ours: its compiles are made, told, counted and remembered, and compared with fresh ones if it is
their turn (HIPCACHE_VERIFY)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hipcache import config as settings
from hipcache.app import fallback, front, kinds
from hipcache.app.ending import Interrupted, become, become_again, die, take_signals
from hipcache.app.fallback import Call
from hipcache.base import features
from hipcache.base.errors import CompilerFails, HipcacheError
from hipcache.build.context import Context, open_context
from hipcache.clang.command import Command
from hipcache.report import conditions, telling
from hipcache.report.outcome import HIT

if TYPE_CHECKING:
    from hipcache.app.front import Compiled
    from hipcache.direct.provenance import Indirect, Provenance


def compile_each(call: Call, commands: tuple[Command, ...], racy: float) -> int:
    """Make the compiles of a command that is ours: they end well, or as `fallback` has it. `commands`: as of
    `kinds.read`. Gives the exit status; does not return if the user's command takes this process over."""
    context: Context | None = None
    config = call.config
    try:
        take_signals()
        conditions.tell(conditions.under(config), call.environ)
        context = open_context(config, call.environ, racy=racy)
        commands, context = kinds.unwrapped(context, commands, call.argv, call.cwd)
        columns = telling.columns(call.environ)
        done, provenance = front.make_each(context, commands, columns)
    except (Exception, Interrupted) as error:
        if context is not None:
            context.runner.kill()
        if isinstance(error, Interrupted):
            raise
        if context is not None:
            _pack(context, config)
        return fallback.after(error, call, commands)
    _tell(call, commands, done)
    # Who wants nothing of the store, or leaves it as it is, gets no record.
    if not (config.readonly or config.recache):
        _remember(context, provenance, done, call, terminal=columns is not None)
    return _verify(context, commands, done, call)


def _tell(call: Call, commands: Sequence[Command], done: Sequence[Compiled]) -> None:
    """Say what the passes said, and count. If nobody reads it, or the disk is full, the compiler knows how it ends
    then."""
    try:
        if said := b"".join(compiled.said for compiled in done):
            telling.say(said)
    except (OSError, ValueError):
        become_again(call.argv, [compiled.record.object for compiled in done])
    for command, compiled in zip(commands, done, strict=True):
        telling.record(call.config, compiled.outcome, command.typed, call.cwd, compiled.record)


def _remember(
    context: Context, provenance: Provenance | Indirect | None, done: Sequence[Compiled], call: Call, *, terminal: bool
) -> None:
    """Everything is written and counted: store the direct record, or say why not, and pack what was stored."""
    try:
        why = _recorded(context, provenance, done, call, terminal=terminal)
        for compiled in done:
            telling.indirect(call.config, compiled.record, why)
    except Exception as error:  # the compile is done, so no error here may fail it
        telling.log_fault(call.config, error)
    _pack(context, call.config)


def _pack(context: Context, config: settings.Config) -> None:
    """What was stored, also by a compile that failed. Only room is lost where this does."""
    try:
        context.store.pack()
    except Exception as error:
        telling.log_fault(config, error)


def _recorded(
    context: Context, provenance: Provenance | Indirect | None, done: Sequence[Compiled], call: Call, *, terminal: bool
) -> str:
    """Gives in words why there is no record."""
    if provenance is None:
        return ""
    from hipcache.direct.provenance import Indirect
    from hipcache.direct.remember import remember
    from hipcache.report.history import History

    if isinstance(provenance, Indirect):
        return provenance.why

    return remember(
        context,
        call.argv,
        call.cwd,
        call.environ,
        provenance,
        messages=b"".join(compiled.said for compiled in done),
        terminal=terminal,
        ended=[compiled.outcome for compiled in done],
        history=[History.name(compiled.record) for compiled in done],
        settings=settings.watched_paths(call.config, call.environ),
        system=call.config.system_paths,
    )


def _verify(context: Context, commands: tuple[Command, ...], done: Sequence[Compiled], call: Call) -> int:
    """If all was a hit and it is this compile's turn, compare it with what the compiler makes."""
    is_hit = all(compiled.outcome.outcome == HIT for compiled in done)
    return _compare(context, commands, call) if call.config.verify and is_hit and call.config.is_drawn() else 0


def _compare(context: Context, commands: tuple[Command, ...], call: Call) -> int:
    """Compare what was served with what the compiler makes. The outputs are there, whatever happens here."""
    try:
        take_signals()
        for check in features.modules("HIT_CHECK"):
            check.compare(context, commands, call.argv, call.cwd, call.config)
    except Interrupted as interrupted:
        context.runner.kill()
        die(interrupted.number)
    except CompilerFails:
        print("hipcache: the store has an object for this command, but the compiler fails:", file=sys.stderr)
        become(call.argv)
    except Exception as error:
        telling.log_fault(call.config, error)
    return 0


def compare_served(call: Call) -> int:
    """The same for a command that was just a direct hit."""
    try:
        context = open_context(call.config, call.environ)
        commands = kinds.read(tuple(call.argv), call.cwd, call.environ, call.config)
        commands, context = kinds.unwrapped(context, commands, call.argv, call.cwd)
    except HipcacheError as error:
        telling.log(call.config, f"not compared: {error}")
        return 0
    return _compare(context, commands, call)
