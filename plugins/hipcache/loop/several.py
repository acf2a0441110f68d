"""Commands with several sources: each source becomes a command of its own.

The driver compiles several sources one after the other. hipcache checks with the driver's plan for all of them that the
separate commands are the same compiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hipcache.engine import Engine
from hipcache.errors import CommandFailed, JobFailed, PassThrough
from hipcache.loop import front
from hipcache.loop.account import Compiled
from hipcache.planning.command import Command

if TYPE_CHECKING:
    from hipcache.direct.provenance import Indirect, Provenance


def make_each(
    engine: Engine, commands: Sequence[Command], columns: int | None
) -> tuple[list[Compiled], Provenance | Indirect | None]:
    """The result of each of `commands` (one per source of the user's command), and what a direct hit of all of them
    needs, or why there can be none. Raises as `front.make`; the user's own command then overwrites the outputs written
    so far."""
    if len(commands) > 1:
        return _make_each(engine, commands, columns)
    done = front.make(engine, commands[0], columns)
    return [done], done.provenance


def _make_each(
    engine: Engine, commands: Sequence[Command], columns: int | None
) -> tuple[list[Compiled], Provenance | Indirect | None]:
    from hipcache.direct import provenance
    from hipcache.inputs import watched
    from hipcache.inputs.identity import is_script
    from hipcache.planning import asking, driver, tools

    first = commands[0]
    if is_script(tools.which(first.compiler, first.cwd, engine.environ)):
        raise PassThrough("several_sources", "for a script in place of the compiler")
    jobs, looked = asking.count_jobs(first.part_of, first.cwd, engine)
    if first.output:
        raise PassThrough("several_sources", "they have one output")
    done: list[Compiled] = []
    try:
        for command in commands:
            if command.assembles:
                raise PassThrough("not_hip", command.source)
            done.append(front.make(engine, command, columns))
    except CommandFailed as failed:  # that of one source, behind which the driver goes on with the others
        raise JobFailed(failed.job, failed.status) from failed
    if sum(one.jobs for one in done) != jobs or any(one.has_messages for one in done):
        raise PassThrough("several_sources", "the driver plans all of them differently")
    if not looked:
        return done, provenance.Indirect(driver.why_unknown(first.part_of))
    return done, provenance.together([one.provenance for one in done], map(watched.of_observation, looked))
