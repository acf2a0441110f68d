"""The compile of one source."""

from __future__ import annotations

from hipcache.compiled import Compiled
from hipcache.engine import Engine
from hipcache.errors import PassThrough
from hipcache.front import make_alone
from hipcache.planning import wrapper
from hipcache.planning.command import Command


def compile(engine: Engine, command: Command, columns: int | None) -> Compiled:
    """As `front.make`. A script in the compiler's place is seen through."""
    if command.assembles:  # among other sources
        raise PassThrough("not_hip", command.source)
    command, engine = wrapper.through_script(engine, command)
    return make_alone(engine, command, columns)
