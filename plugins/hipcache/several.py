"""The story of a command of several sources, which the driver compiles one after the other: a compile for each.

Each is another command than the user's. That it is the same compile is checked by the driver's plan for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from hipcache.compile import compile
from hipcache.compiled import Compiled
from hipcache.direct.remember import Whole, together
from hipcache.engine import Engine
from hipcache.errors import CommandFailed, JobFailed, PassThrough
from hipcache.inputs import watched
from hipcache.inputs.identity import is_script
from hipcache.planning import driver, tools
from hipcache.planning.command import Command


def compile_each(
    engine: Engine, commands: Sequence[Command], columns: int | None
) -> tuple[list[Compiled], Whole | None]:
    """Make the objects of one command, of which `commands` are one for each source; and what a direct hit of all needs.
    Raises as `compile` does; what has been written by then, the user's own command writes again."""
    first = commands[0]
    if is_script(tools.which(first.compiler, first.cwd, engine.environ)):
        raise PassThrough("several_sources", "for a script in place of the compiler")
    jobs, looked = driver.count_jobs(first.part_of, first.cwd, engine)
    if first.output:
        raise PassThrough("several_sources", "one output for all of them")
    try:
        done = [compile(engine, command, columns) for command in commands]
    except CommandFailed as failed:  # that of one source, behind which the driver goes on with the others
        raise JobFailed(failed.job, failed.status) from failed
    if sum(one.jobs for one in done) != jobs or any(one.has_messages for one in done):
        raise PassThrough("several_sources", "the driver has another plan for all of them")
    wholes = [one.whole for one in done] if looked else [None]
    return done, together(wholes, map(watched.of_observation, looked))
