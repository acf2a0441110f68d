"""Asks the driver for the plans of compiles and of GPU assembler sources, and parses them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from hipcache.engine import Engine
from hipcache.errors import PassThrough
from hipcache.planning import added, assembler, auxiliary, colours, driver, offload_plan, plan
from hipcache.planning.assembler import AssemblerJob
from hipcache.planning.command import Command, messages_file
from hipcache.planning.driver_options import SERIALIZE, why_passed_through
from hipcache.planning.jobs import split
from hipcache.planning.offload_plan import DryRuns
from hipcache.planning.plan import Plan
from hipcache.processes.runner import Runner
from hipcache.values import dataclass, replace


@dataclass(frozen=True)
class Asked:
    """The plan, the path of the driver, and every path that the driver looked at (empty if unknown). `added`: what
    counts in a CUID of options that are not in the command."""

    plan: Plan
    program: str
    observations: driver.Observations
    added: tuple[str, ...] = ()


@dataclass(frozen=True)
class AskedToAssemble:
    """The same for a GPU assembler source."""

    job: AssemblerJob
    program: str
    observations: driver.Observations


def ask(
    command: Command, cuid: str, engine: Engine, runner: Runner, *, columns: int | None, scratch: Callable[[], Path]
) -> Asked:
    """The plan for `command`. `cuid` is empty if the user has chosen one; `columns`: the width of the terminal
    that messages go to, None if they do not go to one; `scratch` gives a directory for what the driver leaves behind
    (clang 15 makes directories for its temporary files even when it only plans). Raises PassThrough, and JobFailed
    if the driver refuses the command."""
    command, messages = _without_messages_file(command)
    messages_as = colours.ask(command, engine, runner, columns=columns, scratch=scratch)
    ours = [*messages_as.options, *([f"-cuid={cuid}"] if cuid else [])]
    program, words, found = driver.answer_with(ours, command, engine, runner, scratch)
    driver.check_options(found.text, engine.environ, _why_passed_through)
    more = added.counted(found.text, engine.environ, command.cwd)
    text = driver.as_typed(found.text, words, command)
    text = driver.with_messages_to(text, messages) if messages else text
    wrapper = DryRuns(engine, runner, command.cwd, scratch)
    parsed = plan.parse(text, command.side, partial(offload_plan.flat, asked=wrapper))
    auxiliary.check(parsed, command.path)
    looked = () if wrapper.looked is None else (*found.observations, *wrapper.looked)
    return Asked(parsed, program, messages_as.beside(looked if found.observations else ()), more)


def _why_passed_through(option: str) -> str:
    """The same for options that are not in the command: a file for messages among them is not known before."""
    return "side_output" if option in SERIALIZE else why_passed_through(option)


def _without_messages_file(command: Command) -> tuple[Command, str]:
    """The command with another file for messages, and the name of that one (see `SERIALIZE`)."""
    _, name = messages_file(command.argv)
    if messages_file(("", *command.arguments))[1] != name:
        raise PassThrough("side_output", f"{SERIALIZE[0]} in a response file")
    return replace(command, argv=driver.to_plan(command.argv)), name


def ask_assembler(command: Command, engine: Engine, runner: Runner, scratch: Callable[[], Path]) -> AskedToAssemble:
    """The plan for a source of a GPU's assembler. As `ask`; raises PassThrough also if the driver has something to
    say, which it would say in another look on a terminal."""
    if messages_file(("", *command.arguments))[0]:
        raise PassThrough("side_output", SERIALIZE[0])
    words = driver.words_for(command, [])
    program, found = driver.answer(words, command.arguments, command.cwd, engine, runner, scratch)
    driver.check_options(found.text, engine.environ, _why_passed_through)
    jobs, messages = split(found.text)
    if messages:
        raise PassThrough("job_output", f"the driver printed: {messages.strip()[:200]}")
    return AskedToAssemble(assembler.parse(jobs), program, found.observations)


def count_jobs(argv: tuple[str, ...], cwd: str, engine: Engine) -> tuple[int, driver.Observations]:
    """The number of jobs that the driver plans for a command of several sources, and all that it looked at for that
    (nothing if that is not known). Raises JobFailed, and PassThrough also if it has something to say: it says that
    once, for all sources."""
    if messages_file(argv)[0]:
        raise PassThrough("several_sources", SERIALIZE[0])
    words = [argv[0], "-###", *argv[1:]]
    with engine.store.workdir() as scratch:
        _, found = driver.answer(words, argv, cwd, engine, engine.runner, lambda: scratch)
    driver.check_messages(found.text)
    jobs, messages = split(found.text)
    if messages:
        raise PassThrough("several_sources", f"the driver printed: {messages.strip()[:200]}")
    return len(jobs), found.observations
