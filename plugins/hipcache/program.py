"""The story of a program that one command compiles and links: as `compile`, in the numbered steps of ARCHITECTURE.md.

Each source is a compile of its own, into a directory of ours; relocatable device code is linked as in `link`. The
host's link is run each time, as the driver's plan has it: it has the last word on what the program is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hipcache.compile import Compiled
from hipcache.engine import Engine
from hipcache.errors import PassThrough
from hipcache.inputs.identity import is_script
from hipcache.making import account, assembly, delivery, host_link, one_source, relocatable, unbundling
from hipcache.making.one_source import Made
from hipcache.planning import driver, program_plan, tools
from hipcache.planning.cc1 import Role
from hipcache.planning.command import Command
from hipcache.planning.plan import Plan, ToolJob
from hipcache.planning.program_plan import ProgramPlan, outputs_of
from hipcache.session import Session, decode, in_session


def make_program(engine: Engine, command: Command, columns: int | None) -> Compiled:
    """Make the program of `command`. Raises as `link.link` does."""
    if is_script(tools.which(command.compiler, command.cwd, engine.environ)):
        raise PassThrough("wrapper", "a script that links may do more than that")
    return in_session(engine, command, lambda session: _make(session, columns))


def _make(session: Session, columns: int | None) -> Compiled:
    # 1. Ask the driver for its plan: a compile for each source, and the link.
    plan = _plan(session, columns)
    for library in plan.libraries:
        unbundling.check_without_device_code(session, library)
    # 2. to 5. The object of each source, with its device code or beside it: its units found or made, put together.
    made, texts = _compile_all(session, plan)
    # 2. to 4. again, for relocatable device code: the code object of each arch, found or linked.
    if isinstance(plan.link, ToolJob):
        codes = []
    else:
        sources = {name: one.first.source for one in plan.compiles if isinstance(one, Plan) for name in one.outputs}
        codes = relocatable.link_devices(session, plan.link, sources)
        texts |= {str(code.unit.code): code.text for code in codes}
    # 5. and 6. Write the dependency files, and have the host's linker write the program.
    for together in _by_dependency_file(made):
        delivery.write_dependencies(session, together)
    messages = plan.messages + _in_order(plan.order, texts)
    if isinstance(plan.link, ToolJob):
        messages = host_link.run(session, plan.link, messages, columns=columns)
    else:
        messages = relocatable.finish(session, plan.link, codes, messages, columns=columns)
    # 7. Say what happened.
    record, outcome = account.of(session, made, codes, session.command.path(plan.output))
    files = tuple(dict.fromkeys(name for one in made for name in one.files))
    return Compiled(outcome, messages, record, None, files, None)


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


def _in_order(order: tuple[str, ...], texts: Mapping[str, str]) -> str:
    """What was said, as the driver's jobs would have said it; what is not of one of them (a link within the linker
    wrapper) last."""
    return "".join(texts[name] for name in dict.fromkeys([*order, *texts]) if name in texts)
