"""The plans of links, and of programs that one command compiles and links: asked of the driver, and read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from hipcache.engine import Engine
from hipcache.errors import JobFailed
from hipcache.planning import added, colours, driver, link_plan, offload_plan, program_plan, tools, wrapper_plan
from hipcache.planning.command import Command, is_relocatable
from hipcache.planning.driver_options import (
    chooses_cuid,
    why_passed_through_in_link,
    why_passed_through_in_program,
)
from hipcache.planning.link_plan import LinkPlan
from hipcache.planning.offload_plan import DryRuns
from hipcache.planning.program_plan import ProgramPlan
from hipcache.planning.wrapper_plan import WrapperPlan
from hipcache.processes.runner import Runner
from hipcache.values import replace


def ask_program(
    command: Command, engine: Engine, runner: Runner, *, columns: int | None, scratch: Callable[[], Path]
) -> ProgramPlan:
    """The plan for a program that is compiled and linked at once, with the driver's own CUIDs. As `ask`; with
    relocatable device code as `ask_link`."""
    if is_relocatable(command.arguments):
        text = _ask_anew(command, engine, runner, columns, scratch(), why_passed_through_in_program)
        return _with_options(program_plan.parse_relocatable(text, command.side), text, command, engine)
    messages_as = colours.ask(command, engine, runner, columns=columns, scratch=scratch)
    _, words, found = driver.answer_with(messages_as.options, command, engine, runner, scratch)
    driver.check_options(found.text, engine.environ, why_passed_through_in_program)
    flat = partial(offload_plan.flat, asked=DryRuns(engine, runner, command.cwd, scratch))
    plan = program_plan.parse(driver.as_typed(found.text, words, command), command.side, flat)
    return _with_options(plan, found.text, command, engine)


def _with_options(plan: ProgramPlan, text: str, command: Command, engine: Engine) -> ProgramPlan:
    """The plan with options that are not in the command."""
    own_cuid = any(map(chooses_cuid, added.options(text, engine.environ)))
    return replace(plan, own_cuid=own_cuid, added=added.counted(text, engine.environ, command.cwd))


def ask_link(
    command: Command, engine: Engine, runner: Runner, *, columns: int | None, scratch: Path
) -> LinkPlan | WrapperPlan:
    """The plan for a link, whose temporary files lie below `scratch`. Raises PassThrough, JobFailed."""
    text = _ask_anew(command, engine, runner, columns, scratch, why_passed_through_in_link)
    return wrapper_plan.parse(text) or link_plan.parse(text)


def _ask_anew(
    command: Command, engine: Engine, runner: Runner, columns: int | None, scratch: Path, why: Callable[[str], str]
) -> str:
    messages_as = colours.ask(command, engine, runner, columns=columns, scratch=lambda: scratch)
    program = tools.find(command.compiler, command.cwd, engine.environ)

    def ask(options: Sequence[str]) -> str:
        def plan(*more: str) -> str:
            words = driver.words_for(command, [*options, *more])
            return driver.run(program, words, engine, runner, Path(command.cwd), scratch).text

        try:
            return plan(link_plan.DUMP_SCRIPT)
        except JobFailed:  # Clang 24 has no such script, nor the option.
            return plan()

    text = ask(messages_as.options)
    kept = added.kept(messages_as.options, text, engine.environ)
    if kept != [*messages_as.options]:
        text = ask(kept)
    driver.check_options(text, engine.environ, why)
    return text
