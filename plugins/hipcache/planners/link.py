"""A link of relocatable device code, with either offload driver."""

from __future__ import annotations

from collections.abc import Mapping

from hipcache.execution import host_link
from hipcache.execution.session import Session
from hipcache.model import Graph
from hipcache.planners import Planned, bundled_link, refuse_script, wrapped_link
from hipcache.planning import asking_links
from hipcache.planning.jobs import ToolJob
from hipcache.planning.link_plan import LinkPlan, value_after
from hipcache.planning.wrapper_plan import WrapperPlan


def plan(session: Session, columns: int | None) -> Planned:
    """Asks the driver every time. The host linker writes the program, as in the driver's plan."""
    refuse_script(session, "links")
    found = asking_links.ask_link(
        session.command, session.engine, session.jobs.runner, columns=columns, scratch=session.jobs.workdir
    )
    return Planned(graph(session, found, {}, columns))


def graph(
    session: Session, plan: ToolJob | LinkPlan | WrapperPlan, sources: Mapping[str, str], columns: int | None
) -> Graph:
    """`sources`: of the temporary files that the command itself compiled. A `plan` with one job is only the host
    link."""
    if isinstance(plan, ToolJob):
        path = session.command.path(value_after(plan, "-o"))
        return Graph((host_link.action(session, plan, {}, columns),), (), (), path)
    if isinstance(plan, WrapperPlan):
        return wrapped_link.graph(session, plan, sources, columns)
    return bundled_link.graph(session, plan, sources, columns)
