"""The story of a program that one command compiles and links: as `compile`, in the numbered steps of ARCHITECTURE.md.

Each source is a compile of its own, into a directory of ours; relocatable device code is linked as in `link`. The
host's link is run each time, as the driver's plan has it: it has the last word on what the program is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hipcache.build import build
from hipcache.compiled import Compiled
from hipcache.engine import Engine
from hipcache.errors import HostLinkFailed
from hipcache.execution import host_link
from hipcache.making import account, assembly, delivery, one_source, unbundling
from hipcache.making.one_source import Made
from hipcache.model.action import Action, Process
from hipcache.model.end import End
from hipcache.model.graph import Graph
from hipcache.planners import link, refuse_script
from hipcache.planners.device_link import CODE
from hipcache.planning import driver, program_plan
from hipcache.planning.cc1 import Role
from hipcache.planning.command import Command
from hipcache.planning.plan import Plan, ToolJob
from hipcache.planning.program_plan import ProgramPlan, outputs_of
from hipcache.session import Session, decode, in_session
from hipcache.world import world_of


def make_program(engine: Engine, command: Command, columns: int | None) -> Compiled:
    """Make the program of `command`. Raises as `front.make` does; what the host's linker has written by then is what it
    would have written for the compiler, too."""
    return in_session(engine, command, lambda session: _make(session, columns))


def _make(session: Session, columns: int | None) -> Compiled:
    # 1. Ask the driver for its plan: a compile for each source, and the link.
    refuse_script(session, "links")
    plan = _plan(session, columns)
    for library in plan.libraries:
        unbundling.check_without_device_code(session, library)
    # 2. to 5. The object of each source, with its device code or beside it: its units found or made, put together.
    made, texts = _compile_all(session, plan)
    # 6. Write the dependency files. 2. to 6. again, for relocatable device code and the program.
    for together in _by_dependency_file(made):
        delivery.write_dependencies(session, together)
    graph, ends = _link_graph(session, plan, columns), dict[str, End]()
    try:
        build(graph, world_of(session), ends)
    except HostLinkFailed as failed:
        text = plan.messages + _in_order(session, plan.order, texts, graph, ends) + failed.text
        raise HostLinkFailed(failed.status, text) from failed
    messages = plan.messages + _in_order(session, plan.order, texts, graph, ends)
    # 7. Say what happened.
    record, outcome = account.of_program(session, made, graph, ends)
    files = tuple(dict.fromkeys(name for one in made for name in one.files))
    return Compiled(outcome, messages, record, None, files, None)


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
    return program_plan.with_cuids(plan, {source: one_source.cuid_of(session, source, "") for source in sources})


def _compile_all(session: Session, plan: ProgramPlan) -> tuple[list[Made], dict[str, str]]:
    """What the HIP sources came to, and what each pass said, by the name of what it makes."""
    made: list[Made] = []
    texts: dict[str, str] = {}
    for one in plan.compiles:
        if isinstance(one, Plan):
            made.append(_compile(session, one))
            passes = [*(device.code for device in one.devices), *([one.host.value(Role.OUTPUT)] if one.host else [])]
            texts |= {name: product.text for name, product in zip(passes, made[-1].products, strict=True)}
        else:
            done = session.run(f"compile of '{one.source}'", [one.job.program, *one.job.arguments])
            texts[one.object] = decode(done.stderr)
    return made, texts


def _compile(session: Session, plan: Plan) -> Made:
    made = one_source.make(session, plan)
    for name, whole in zip(plan.outputs, assembly.assemble(session, made.cut, made.products), strict=True):
        delivery.write_object(session, whole, Path(session.command.path(name)))
    return made


def _by_dependency_file(made: list[Made]) -> list[list[Made]]:
    """One for each source where the program has no name, one of the program's name else."""
    found: dict[str, list[Made]] = {}
    for one in made:
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
