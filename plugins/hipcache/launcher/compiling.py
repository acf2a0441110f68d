"""A command that is ours: its compiles are made, and end well, or as `fallback` has it."""

from __future__ import annotations

from hipcache.engine import Engine
from hipcache.engine.opening import open_engine
from hipcache.launcher import afterwards, fallback
from hipcache.launcher.call import Call
from hipcache.launcher.ending import Interrupted, take_signals
from hipcache.loop import kinds, several
from hipcache.planning.command import Command
from hipcache.report import conditions, notices, telling


def compile_each(call: Call, commands: tuple[Command, ...], racy: float) -> int:
    """`commands`: as of `kinds.read`. Gives the exit status; does not return if the user's command takes this process
    over."""
    engine: Engine | None = None
    config = call.config
    try:
        take_signals()
        notices.tell(conditions.under(config), call.environ)
        engine = open_engine(config, call.environ, racy=racy)
        commands, engine = kinds.unwrapped(engine, commands, call.argv, call.cwd)
        columns = telling.columns(call.environ)
        done, provenance = several.make_each(engine, commands, columns)
    except (Exception, Interrupted) as error:
        if engine is not None:
            engine.runner.kill()
        if isinstance(error, Interrupted):
            raise
        return fallback.after(error, call, commands)
    afterwards.tell(call, commands, done)
    # Who wants nothing of the store, or leaves it as it is, is served by the engine.
    if not (config.readonly or config.recache):
        afterwards.remember(engine, provenance, done, call, terminal=columns is not None)
    return afterwards.verify(engine, commands, done, call)
