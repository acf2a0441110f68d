"""One command from its plan to its report: the numbered steps of ARCHITECTURE.md."""

from __future__ import annotations

from hipcache.engine import Engine
from hipcache.errors import HostLinkFailed, JobFailed
from hipcache.execution.session import Session
from hipcache.loop import account, kinds
from hipcache.loop.account import Compiled
from hipcache.loop.build import build
from hipcache.loop.world import world_of
from hipcache.model import End
from hipcache.planners import Planned
from hipcache.planning.command import Command


def make(engine: Engine, command: Command, columns: int | None) -> Compiled:
    """Do what the command asks for. `columns`: the width of the terminal for the messages, or None without a terminal.

    Raises PassThrough or StoreError if the user's own command must run instead, and JobFailed if it must run because it
    fails. In each case nothing has been written, except by a program's compiles and its linker."""
    kind = kinds.of(command)
    if kind.script:
        from hipcache.planning import wrapper

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
