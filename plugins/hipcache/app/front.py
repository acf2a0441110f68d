"""One command from its plan to its report: the numbered steps of ARCHITECTURE.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hipcache.app import account, kinds
from hipcache.app.account import Compiled
from hipcache.app.world import world_of
from hipcache.build import End
from hipcache.build.loop import build
from hipcache.clang.command import Command
from hipcache.engine import Engine
from hipcache.errors import CommandFailed, HostLinkFailed, JobFailed, PassThrough
from hipcache.execution.session import Session
from hipcache.planners import Planned

if TYPE_CHECKING:
    from hipcache.direct.provenance import Indirect, Provenance


def make(engine: Engine, command: Command, columns: int | None) -> Compiled:
    """Do what the command asks for. `columns`: the width of the terminal for the messages, or None without a terminal.

    Raises PassThrough or StoreError if the user's own command must run instead, and JobFailed if it must run because it
    fails. In each case nothing has been written, except by a program's compiles and its linker."""
    kind = kinds.of(command)
    if kind.script:
        from hipcache.clang import wrapper

        command, engine = wrapper.through_script(engine, command)
        kind = kinds.of(command)
    with Session(engine, command) as session:
        stages, ends = [kind.planner(session, columns)], dict[str, End]()  # 1.
        _build(stages[0], session, ends)
        while following := stages[-1].then(ends):
            stages.append(following)
            _build(following, session, ends)
        planned, graph = stages[-1], stages[-1].graph
        record, outcome = account.of(session, [one.graph for one in stages], ends, graph.path)  # 7.
        files = (*planned.files, *graph.read(ends))
        return Compiled(
            outcome, graph.said(ends), record, planned.direct(ends), files, planned.jobs, bool(graph.messages)
        )


def _build(planned: Planned, session: Session, ends: dict[str, End]) -> None:
    try:
        build(planned.graph, world_of(session), ends)  # 2. to 6.
    except HostLinkFailed as failed:
        raise HostLinkFailed(failed.status, planned.graph.said(ends) + failed.text) from failed
    except JobFailed as failed:
        raise planned.failed(failed, ends) from failed


def make_each(
    engine: Engine, commands: Sequence[Command], columns: int | None
) -> tuple[list[Compiled], Provenance | Indirect | None]:
    """The result of each of `commands` (one per source of the user's command), and what a direct hit of all of them
    needs, or why there can be none. Raises as `front.make`; the user's own command then overwrites the outputs written
    so far."""
    if len(commands) > 1:
        return _make_several(engine, commands, columns)
    done = make(engine, commands[0], columns)
    return [done], done.provenance


def _make_several(
    engine: Engine, commands: Sequence[Command], columns: int | None
) -> tuple[list[Compiled], Provenance | Indirect | None]:
    from hipcache.clang import driver, dry_run, tools
    from hipcache.direct import provenance
    from hipcache.inputs import watched
    from hipcache.inputs.identity import is_script

    first = commands[0]
    if is_script(tools.which(first.compiler, first.cwd, engine.environ)):
        raise PassThrough("several_sources", "for a script in place of the compiler")
    jobs, looked = dry_run.count_jobs(first.part_of, first.cwd, engine)
    if first.output:
        raise PassThrough("several_sources", "they have one output")
    done: list[Compiled] = []
    try:
        for command in commands:
            if command.assembles:
                raise PassThrough("not_hip", command.source)
            done.append(make(engine, command, columns))
    except CommandFailed as failed:  # that of one source, behind which the driver goes on with the others
        raise JobFailed(failed.job, failed.status) from failed
    if sum(one.jobs for one in done) != jobs or any(one.has_messages for one in done):
        raise PassThrough("several_sources", "the driver plans all of them differently")
    if not looked:
        return done, provenance.Indirect(driver.why_unknown(first.part_of))
    return done, provenance.together([one.provenance for one in done], map(watched.of_observation, looked))
