"""One compile by the user's own compiler, for its output to be compared: with the CUID that hipcache gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hipcache.engine import Engine
from hipcache.errors import PassThrough
from hipcache.execution.session import Session
from hipcache.loop import kinds
from hipcache.planners.object import ask
from hipcache.planning import asking, wrapper
from hipcache.planning.cc1 import Role
from hipcache.planning.command import Command
from hipcache.planning.driver_options import chooses_cuid
from hipcache.planning.plan import Plan
from hipcache.values import dataclass


@dataclass(frozen=True)
class Fresh:
    """The way to compile `command` as hipcache's launcher would have it compiled. `words`: without the program;
    `outputs` and `rule` (the dependency file, or empty): absolute paths; `plan`: of a source of HIP."""

    command: Command
    words: tuple[str, ...]
    environ: Mapping[str, str]
    outputs: tuple[str, ...]
    rule: str
    plan: Plan | None

    def run(self, session: Session, words: Sequence[str] | None = None) -> int:
        """Its exit status; what it says is left out, since hipcache has said it. `words`: others than its own."""
        argv = [self.command.compiler, *(words if words is not None else self.words)]
        # The driver leaves empty directories in TMPDIR (clang 15 a dozen), and the user has not run it.
        env = {**self.environ, "TMPDIR": str(session.jobs.workdir)}
        with session.engine.slots.hold(session.jobs.runner.check):
            return session.jobs.runner.run(argv, cwd=Path(self.command.cwd), env=env).status


def prepare(engine: Engine, command: Command) -> tuple[Fresh, Engine, Command]:
    """And the engine and the command behind a script that stands for the compiler. Raises PassThrough, JobFailed."""
    if kinds.of_program(command.compiler):
        if command.source == "-":
            raise PassThrough("standard_streams", "its source has been read")
        module = (command.path(command.output),)
        return Fresh(command, command.argv[1:], engine.environ, module, "", None), engine, command
    command, engine = wrapper.through_script(engine, command)
    with Session(engine, command) as session:
        if command.assembles:
            asked = asking.ask_assembler(command, engine, session.jobs.runner, lambda: session.jobs.workdir)
            outputs: tuple[str, ...] = (asked.job.output,)
            cuid, rule, plan = "", "", None
        else:
            answer = ask(session, None)
            plan, own_cuid = answer.plan, command.own_cuid or any(map(chooses_cuid, answer.added))
            rule, outputs = plan.dependency_file, plan.outputs
            # The new offload driver, up to clang 19, has no CUIDs, and warns.
            cuid = "" if own_cuid else plan.first.value(Role.CUID)
    words = (*((f"-cuid={cuid}",) if cuid else ()), *command.argv[1:])
    paths = tuple(map(command.path, outputs))
    return Fresh(command, words, engine.environ, paths, command.path(rule) if rule else "", plan), engine, command
