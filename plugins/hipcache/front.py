"""One command from its plan to what is told of it: the numbered steps of ARCHITECTURE.md."""

from __future__ import annotations

from hipcache.build import build
from hipcache.compiled import Compiled
from hipcache.engine import Engine
from hipcache.errors import HostLinkFailed
from hipcache.making import account
from hipcache.model.end import End
from hipcache.planners import Planner
from hipcache.planning.command import Command
from hipcache.session import Session, in_session
from hipcache.world import world_of


def make(engine: Engine, command: Command, columns: int | None, planner: Planner) -> Compiled:
    """Make what the command asks for. `columns`: width of the terminal that will show the messages, None where there is
    none.

    Raises PassThrough or StoreError where the user's own command must be run instead, and JobFailed where it must be
    run because it fails; in each case nothing has been written."""

    def story(session: Session) -> Compiled:
        planned = planner(session, columns)  # 1.
        graph, ends = planned.graph, dict[str, End]()
        try:
            build(graph, world_of(session), ends)  # 2. to 6.
        except HostLinkFailed as failed:
            raise HostLinkFailed(failed.status, graph.said(ends) + failed.text) from failed
        record, outcome = account.of_graph(session, graph, ends)  # 7.
        return Compiled(outcome, graph.said(ends), record, planned.direct(ends), planned.files, None)

    return in_session(engine, command, story)
