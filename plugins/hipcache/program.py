"""The story of a program that one command compiles and links: as `compile`, in the numbered steps of ARCHITECTURE.md.

Each source is a compile of its own, into a directory of ours. The host's link is run each time, as the driver's plan
has it: it has the last word on what the program is.
"""

from __future__ import annotations

import os
from pathlib import Path

from hipcache import compile as one_source
from hipcache.compile import Compiled, Made
from hipcache.engine import Engine
from hipcache.errors import PassThrough
from hipcache.inputs.identity import is_script
from hipcache.making import assembly, host_link, unbundling
from hipcache.planning import driver, program_plan, tools
from hipcache.planning.cc1 import Role
from hipcache.planning.command import Command
from hipcache.planning.plan import Plan, ToolJob
from hipcache.planning.program_plan import Other, ProgramPlan, object_of
from hipcache.session import Session, decode, in_session
from hipcache.values import replace


def make_program(engine: Engine, command: Command, columns: int | None) -> Compiled:
    """Make the program of `command`. Raises as `link.link` does."""
    if is_script(tools.which(command.compiler, command.cwd, engine.environ)):
        raise PassThrough("wrapper", "a script that links may do more than that")
    return in_session(engine, command, lambda session: _make(session, columns))


def _make(session: Session, columns: int | None) -> Compiled:
    # 1. Ask the driver for its plan: a compile for each source, and the host's link.
    engine, runner = session.engine, session.runner
    plan = driver.ask_program(session.command, engine, runner, columns=columns, scratch=lambda: session.workdir)
    plan = _in_our_directory(session, plan)
    for library in plan.libraries:
        unbundling.check_without_device_code(session, library)
    # 2. to 5. The object of each source: its units found or made, and put together.
    made, messages = _compile_all(session, plan)
    # 6. Write the dependency files, and have the host's linker write the program.
    for together in _by_dependency_file(made):
        one_source.write_dependencies(session, together)
    messages = host_link.run(session, plan.link, messages, columns=columns)
    # 7. Say what happened.
    record, outcome = one_source.tell(session, made, session.command.path(plan.output))
    files = tuple(dict.fromkeys(name for one in made for name in one.files))
    return Compiled(outcome, messages, record, None, files, None)


def _in_our_directory(session: Session, plan: ProgramPlan) -> ProgramPlan:
    """The plan may be one of before: its temporary objects get a place in this session's directory. A linker that
    names one in a message names another one each time anyway."""
    places = {name: str(session.workdir / os.path.basename(name)) for name in map(object_of, plan.compiles)}

    def moved(job: ToolJob) -> ToolJob:
        return replace(job, arguments=tuple(places.get(word, word) for word in job.arguments))

    compiles = [replace(one, job=moved(one.job)) if isinstance(one, Other) else one for one in plan.compiles]
    return replace(plan, compiles=tuple(compiles), link=moved(plan.link))


def _compile_all(session: Session, plan: ProgramPlan) -> tuple[list[Made], str]:
    """What the HIP sources came to, and what was said from the beginning."""
    made, messages = [], plan.messages
    for one in plan.compiles:
        if isinstance(one, Other):
            done = session.run(f"compile of '{one.job.arguments[-1]}'", [one.job.program, *one.job.arguments])
            messages += decode(done.stderr)
        else:
            made.append(_compile(session, one))
            messages += made[-1].messages
    return made, messages


def _by_dependency_file(made: list[Made]) -> list[list[Made]]:
    """One for each source where the program has no name, one of the program's name else."""
    found: dict[str, list[Made]] = {}
    for one in made:
        found.setdefault(one.plan.first.value(Role.DEPENDENCIES, "-dependency-file"), []).append(one)
    return list(found.values())


def _compile(session: Session, plan: Plan) -> Made:
    place = session.workdir / os.path.basename(plan.outputs[0])
    if not session.command.own_cuid:
        plan = program_plan.with_cuid(plan, _cuid(session, plan))
    made = one_source.make(session, plan)
    (whole,) = assembly.assemble(session, made.cut, made.products)
    one_source.write_object(session, whole, Path(place))
    return made


def _cuid(session: Session, plan: Plan) -> str:
    """As of an object that is compiled alone, and named by the compiler."""
    return one_source.cuid_of(session, plan.first.source, "")
