"""A program that one command compiles and links: two graphs, one after the other.

Each source is a separate compile into a directory of hipcache's; relocatable device code is linked as in `link`. The
host link runs every time, as in the driver's plan.

One graph would not do: the inputs and archs of the link are known only when the objects exist. As with the driver, the
dependency files exist when the link begins, however it ends.
"""

from __future__ import annotations

import os
from functools import partial

from hipcache.execution import unbundling
from hipcache.execution.session import Session
from hipcache.model import Action, Cache, Delivery, Graph, Policy, Process, Slot
from hipcache.planners import Ends, Planned, link, refuse_script
from hipcache.planners.device_link import CODE
from hipcache.planners.object import cuid_of
from hipcache.planners.source import SourceGraph, dependency_rules, source_graph
from hipcache.planning import asking_links, program_plan
from hipcache.planning.program_plan import Other, ProgramPlan, outputs_of
from hipcache.values import replace

# More than a source has passes.
_TURNS = 1000


def plan(session: Session, columns: int | None) -> Planned:
    """A compile for each source, and then the link."""
    refuse_script(session, "links")
    program = _plan(session, columns)
    for library in program.libraries:
        unbundling.check_without_device_code(session, library)
    sources = [
        source_graph(session, one, f" of source {number}", several=len(program.sources) > 1, turn=number * _TURNS)
        for number, one in enumerate(program.sources)
    ]
    return Planned(_compiles(session, program, sources), then=partial(_link, session, program, sources, columns))


def _link(session: Session, program: ProgramPlan, sources: list[SourceGraph], columns: int | None, _: Ends) -> Planned:
    files = {name: one.first.source for one in program.sources for name in one.outputs}
    graph = link.graph(session, program.link, files, columns)
    return Planned(replace(graph, messages=program.messages, printed=_printed(session, program, sources, graph)))


def _plan(session: Session, columns: int | None) -> ProgramPlan:
    """The plan, with temporary files in this session's directory, and with the CUIDs of objects that are compiled
    separately and named by the compiler."""
    command = session.command
    plan = asking_links.ask_program(
        command, session.engine, session.jobs.runner, columns=columns, scratch=lambda: session.jobs.workdir
    )
    if plan.links_host:
        # It may be one of before. A linker that names an object in a message names another one each time anyway.
        names = [name for one in plan.compiles for name in outputs_of(one)]
        plan = program_plan.moved(plan, {name: str(session.jobs.workdir / os.path.basename(name)) for name in names})
    if command.own_cuid or plan.own_cuid:
        return plan
    return program_plan.with_cuids(plan, _cuids(session, plan))


def _cuids(session: Session, plan: ProgramPlan) -> dict[str, str]:
    """By source; two are the same only for one file."""
    # What links again later has a name of its own.
    output = session.command.output if "-r" in session.command.arguments else ""
    files: dict[str, str] = {}
    cuids: dict[str, str] = {}
    for source in (one.first.source for one in plan.sources):
        file = os.path.realpath(session.command.path(source))
        more: tuple[str, ...] = ()
        while files.setdefault(cuid := cuid_of(session, source, output, (*plan.added, *more)), file) != file:
            more = (*more, "another source")
        cuids[source] = cuid
    return cuids


def _compiles(session: Session, plan: ProgramPlan, sources: list[SourceGraph]) -> Graph:
    """All sources; the link reads their objects."""
    others = [_other(one) for one in plan.compiles if isinstance(one, Other)]
    delivered = [
        Delivery(session.command.path(name), output)
        for one in sources
        for name, output in zip(one.plan.outputs, one.outputs, strict=True)
    ]
    rules = [rule for together in _by_dependency_file(sources) for rule in dependency_rules(session, together)]
    return Graph(
        (*others, *(action for one in sources for action in one.actions())),
        tuple(delivered),
        tuple(unit for one in sources for unit in one.units()),
        "",
        grow=lambda end: [action for one in sources for action in one.following(end)],
        printed=tuple(slot for one in sources for slot in one.texts.values()),
        rules=tuple(rules),
    )


def _other(one: Other) -> Action:
    """The compile of a source that is not HIP, as the driver would run it."""
    work = Process((one.job.program, *one.job.arguments))
    return Action(one.object, "", f"compile of '{one.source}'", work, policy=Policy(Cache.NEVER))


def _by_dependency_file(sources: list[SourceGraph]) -> list[list[SourceGraph]]:
    """The sources by dependency file: each has its own, or all share the one that is named after the program."""
    found: dict[str, list[SourceGraph]] = {}
    for one in sources:
        found.setdefault(one.plan.dependency_file, []).append(one)
    return list(found.values())


def _printed(session: Session, plan: ProgramPlan, sources: list[SourceGraph], linking: Graph) -> tuple[Slot, ...]:
    """The passes and links whose texts the user reads, in the order of the driver's jobs. Those that are no job of the
    driver (a link within the linker wrapper, the host link) come last."""
    written: dict[str, Slot] = {one.object: (one.object,) for one in plan.compiles if isinstance(one, Other)}
    for source in sources:
        written |= source.texts
    written |= {_written_by(session, action): (action.id,) for action in linking.actions}
    return tuple(written[name] for name in dict.fromkeys([*plan.order, *written]) if name in written)


def _written_by(session: Session, action: Action) -> str:
    """The file of the driver's plan that a device link writes, or else its name."""
    places = dict(action.work.places) if isinstance(action.work, Process) else {}
    return str(session.jobs.scratch(places[CODE])) if CODE in places else action.id
