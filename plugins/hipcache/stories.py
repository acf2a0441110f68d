"""Which story a command is told by: several compiles, a program, one graph as it stands, or one compile.

Each is imported when it is told: the launcher starts a process for one command.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hipcache.planning import tools

if TYPE_CHECKING:
    from hipcache.compiled import Compiled
    from hipcache.direct.remember import Whole
    from hipcache.engine import Engine
    from hipcache.planning.command import Command


def tell(engine: Engine, commands: Sequence[Command], columns: int | None) -> tuple[list[Compiled], Whole | None]:
    """What each of `commands` (one for each source of the user's) came to, and what a direct hit of all needs. Raises
    as `front.make` does."""
    if len(commands) > 1:
        from hipcache.several import compile_each

        return compile_each(engine, commands, columns)
    (command,) = commands
    if command.makes_program and not command.links:
        from hipcache.program import make_program as story
    elif command.links or command.assembles or tools.is_iree_compile(command.compiler):
        from hipcache.front import make_alone as story
    else:
        from hipcache.compile import compile as story
    done = story(engine, command, columns)
    return [done], done.whole
