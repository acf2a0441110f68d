"""A link of relocatable device code, with either offload driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hipcache.base.errors import JobFailed
from hipcache.build import Graph
from hipcache.clang import colours, driver, tools
from hipcache.clang.command import Command
from hipcache.clang.driver_options import why_passed_through_in_link
from hipcache.clang.jobs import ToolJob, output_of
from hipcache.engine import Engine
from hipcache.execution.session import Session
from hipcache.link import bundler, steps, wrapper
from hipcache.link.bundler import LinkPlan
from hipcache.link.wrapper import WrapperPlan
from hipcache.planners import Planned, refuse_script
from hipcache.processes.runner import Runner


def plan(session: Session, columns: int | None) -> Planned:
    """Asks the driver every time. The host linker writes the program, as in the driver's plan."""
    refuse_script(session, "links")
    found = ask_link(
        session.command, session.engine, session.jobs.runner, columns=columns, scratch=session.jobs.workdir
    )
    return Planned(graph(session, found, {}, columns))


def graph(
    session: Session, plan: ToolJob | LinkPlan | WrapperPlan, sources: Mapping[str, str], columns: int | None
) -> Graph:
    """`sources`: of the temporary files that the command itself compiled. A `plan` with one job is only the host
    link."""
    if isinstance(plan, ToolJob):
        path = session.command.path(output_of(plan))
        return Graph((steps.host_link(session, plan, {}, columns),), (), (), path)
    if isinstance(plan, WrapperPlan):
        return wrapper.graph(session, plan, sources, columns)
    return bundler.graph(session, plan, sources, columns)


def ask_link(
    command: Command, engine: Engine, runner: Runner, *, columns: int | None, scratch: Path
) -> LinkPlan | WrapperPlan:
    """The plan for a link, whose temporary files lie below `scratch`. Raises PassThrough, JobFailed."""
    text = ask_anew(command, engine, runner, columns, scratch, why_passed_through_in_link)
    return wrapper.parse(text) or bundler.parse(text)


def ask_anew(
    command: Command, engine: Engine, runner: Runner, columns: int | None, scratch: Path, why: Callable[[str], str]
) -> str:
    """What the driver prints, in a plan that is asked for each time. `why` an option of its own passes through."""
    messages_as = colours.ask(command, engine, runner, columns=columns, scratch=lambda: scratch)
    program = tools.find(command.compiler, command.cwd, engine.environ)

    def ask(options: Sequence[str]) -> str:
        def plan(*more: str) -> str:
            words = driver.words_for(command, [*options, *more])
            return driver.run(program, words, engine, runner, Path(command.cwd), scratch).text

        try:
            return plan(bundler.DUMP_SCRIPT)
        except JobFailed:  # Clang 24 has no such script, nor the option.
            return plan()

    text = ask(messages_as.options)
    kept = driver.kept_options(messages_as.options, text, engine.environ)
    if kept != [*messages_as.options]:
        text = ask(kept)
    driver.check_options(text, engine.environ, why)
    return text
