"""One command from its plan to what is told of it: the numbered steps of ARCHITECTURE.md."""

from __future__ import annotations

from hipcache import account
from hipcache.build import build
from hipcache.compiled import Compiled
from hipcache.engine import Engine
from hipcache.errors import HostLinkFailed, JobFailed
from hipcache.model import End
from hipcache.planners import Planner, registry
from hipcache.planning.command import Command
from hipcache.session import Session
from hipcache.world import world_of


def make_alone(engine: Engine, command: Command, columns: int | None) -> Compiled:
    return make(engine, command, columns, registry.of(command))


def make(engine: Engine, command: Command, columns: int | None, planner: Planner) -> Compiled:
    """Make what the command asks for. `columns`: width of the terminal that will show the messages, None where there is
    none.

    Raises PassThrough or StoreError where the user's own command must be run instead, and JobFailed where it must be
    run because it fails; in each case nothing has been written."""

    with Session(engine, command) as session:
        planned = planner(session, columns)  # 1.
        graph, ends = planned.graph, dict[str, End]()
        try:
            build(graph, world_of(session), ends)  # 2. to 6.
        except HostLinkFailed as failed:
            raise HostLinkFailed(failed.status, graph.said(ends) + failed.text) from failed
        except JobFailed as failed:
            raise planned.failed(failed, ends) from failed
        record, outcome = account.of(session, [graph], ends, graph.path)  # 7.
        files = (*planned.files, *graph.read(ends))
        return Compiled(
            outcome, graph.said(ends), record, planned.direct(ends), files, planned.jobs, bool(graph.messages)
        )
