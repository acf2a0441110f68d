"""Compares a hit with a fresh compile, if it was selected for that (HIPCACHE_VERIFY)."""

from __future__ import annotations

import sys

from hipcache.engine import Engine
from hipcache.engine.opening import open_engine
from hipcache.errors import HipcacheError
from hipcache.launcher.call import Call
from hipcache.launcher.ending import Interrupted, become, die, take_signals
from hipcache.loop import kinds
from hipcache.planning.command import Command
from hipcache.report import telling
from hipcache.verify import delivered


def compare(engine: Engine, commands: tuple[Command, ...], call: Call) -> int:
    """Compare what was served with what the compiler makes. The outputs are there, whatever happens here."""
    try:
        take_signals()
        delivered.compare(engine, commands, call.argv, call.cwd, call.config)
    except Interrupted as interrupted:
        engine.runner.kill()
        die(interrupted.number)
    except delivered.CompilerFails:
        print("hipcache: the store has an object for this command, but the compiler fails:", file=sys.stderr)
        become(call.argv)
    except Exception as error:
        telling.log_fault(call.config, error)
    return 0


def compare_served(call: Call) -> int:
    """The same for a command that was just a direct hit."""
    try:
        engine = open_engine(call.config, call.environ)
        commands = kinds.read(tuple(call.argv), call.cwd, call.environ, call.config)
        commands, engine = kinds.unwrapped(engine, commands, call.argv, call.cwd)
    except HipcacheError as error:
        telling.log(call.config, f"not compared: {error}")
        return 0
    return compare(engine, commands, call)
