"""The story of a program that one command compiles and links: as `compile`, in the numbered steps of ARCHITECTURE.md.

Each source is a compile of its own, into a directory of ours; relocatable device code is linked as in `link`. The
host's link is run each time, as the driver's plan has it: it has the last word on what the program is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from hipcache import account
from hipcache.build import build
from hipcache.compiled import Compiled
from hipcache.engine import Engine
from hipcache.errors import HostLinkFailed
from hipcache.execution import host_link, unbundling
from hipcache.model import Action, Cache, Delivery, End, Graph, Policy, Process, ended
from hipcache.planners import link, refuse_script
from hipcache.planners.device_link import CODE
from hipcache.planners.object import cuid_of
from hipcache.planners.source import SourceGraph, dependency_rules, source_graph
from hipcache.planning import driver, program_plan
from hipcache.planning.cc1 import Role
from hipcache.planning.command import Command
from hipcache.planning.plan import Plan, ToolJob
from hipcache.planning.program_plan import Other, ProgramPlan, outputs_of
from hipcache.session import Session
from hipcache.world import world_of

# More than a source has passes.
_TURNS = 1000


def make_program(engine: Engine, command: Command, columns: int | None) -> Compiled:
    """Make the program of `command`. Raises as `front.make` does; what the host's linker has written by then is what it
    would have written for the compiler, too."""
    with Session(engine, command) as session:
        # 1. Ask the driver for its plan: a compile for each source, and the link.
        refuse_script(session, "links")
        plan = _plan(session, columns)
        for library in plan.libraries:
            unbundling.check_without_device_code(session, library)
        # 2. to 6. The object of each source, with its device code or beside it, and the dependency files.
        compiles, sources = _compiles(session, plan)
        ends = build(compiles, world_of(session))
        # 2. to 6. again, for relocatable device code and the program.
        linking = _link_graph(session, plan, columns)
        texts = _texts(plan, sources, ends)
        linked: dict[str, End] = {}
        try:
            build(linking, world_of(session), linked)
        except HostLinkFailed as failed:
            text = plan.messages + _in_order(session, plan.order, texts, linking, linked) + failed.text
            raise HostLinkFailed(failed.status, text) from failed
        messages = plan.messages + _in_order(session, plan.order, texts, linking, linked)
        # 7. Say what happened.
        record, outcome = account.of(session, [compiles, linking], {**ends, **linked}, linking.path)
        return Compiled(outcome, messages, record, None, compiles.read(ends))


def _link_graph(session: Session, plan: ProgramPlan, columns: int | None) -> Graph:
    if isinstance(plan.link, ToolJob):
        return Graph((host_link.action(session, plan.link, {}, columns),), (), (), session.command.path(plan.output))
    sources = {name: one.first.source for one in plan.compiles if isinstance(one, Plan) for name in one.outputs}
    return link.graph(session, plan.link, sources, columns)


def _plan(session: Session, columns: int | None) -> ProgramPlan:
    """With temporary files in this session's directory, and CUIDs as of objects that are compiled alone, and named by
    the compiler."""
    command = session.command
    plan = driver.ask_program(command, session.engine, session.runner, columns=columns, scratch=lambda: session.workdir)
    if isinstance(plan.link, ToolJob):
        # It may be one of before. A linker that names an object in a message names another one each time anyway.
        names = [name for one in plan.compiles for name in outputs_of(one)]
        plan = program_plan.moved(plan, {name: str(session.workdir / os.path.basename(name)) for name in names})
    if command.own_cuid:
        return plan
    sources = [one.first.source for one in plan.compiles if isinstance(one, Plan)]
    return program_plan.with_cuids(plan, {source: cuid_of(session, source, "") for source in sources})


def _compiles(session: Session, plan: ProgramPlan) -> tuple[Graph, list[SourceGraph]]:
    """The graph of all sources, whose objects the link reads."""
    plans = [one for one in plan.compiles if isinstance(one, Plan)]
    sources = [
        source_graph(session, one, f" of source {number}", apart=len(plans) > 1, turn=number * _TURNS)
        for number, one in enumerate(plans)
    ]
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
        told=tuple(slot for one in sources for slot in one.slots),
        rules=tuple(rules),
    ), sources


def _other(one: Other) -> Action:
    """The compile of a source that is no HIP, as the driver would run it."""
    work = Process((one.job.program, *one.job.arguments))
    return Action(one.object, "", f"compile of '{one.source}'", work, policy=Policy(Cache.NEVER))


def _texts(plan: ProgramPlan, sources: list[SourceGraph], ends: Mapping[str, End]) -> dict[str, str]:
    """What each pass said, by the name of what it makes."""
    texts = {one.object: ends[one.object].result.text for one in plan.compiles if isinstance(one, Other)}
    for source in sources:
        host = source.plan.host
        passes = [*(device.code for device in source.plan.devices), *([host.value(Role.OUTPUT)] if host else [])]
        for name, slot in zip(passes, source.slots, strict=True):
            end = ended(ends, slot)
            texts[name] = end.result.text if end else ""
    return texts


def _by_dependency_file(sources: list[SourceGraph]) -> list[list[SourceGraph]]:
    """One for each source where the program has no name, one of the program's name else."""
    found: dict[str, list[SourceGraph]] = {}
    for one in sources:
        found.setdefault(one.plan.first.value(Role.DEPENDENCIES, "-dependency-file"), []).append(one)
    return list(found.values())


def _in_order(
    session: Session, order: tuple[str, ...], texts: Mapping[str, str], graph: Graph, ends: Mapping[str, End]
) -> str:
    """What was said, as the driver's jobs would have said it; what is not of one of them (a link within the linker
    wrapper, the host's link) last."""
    said = dict(texts)
    for action in graph.actions:
        if action.id in ends:
            said[_written_by(session, action)] = ends[action.id].result.text
    return "".join(said[name] for name in dict.fromkeys([*order, *said]) if name in said)


def _written_by(session: Session, action: Action) -> str:
    """The file of the driver's plan that a device link writes; else its name."""
    places = dict(action.work.places) if isinstance(action.work, Process) else {}
    return str(session.scratch(places[CODE])) if CODE in places else action.id
