"""The programs that clang-linker-wrapper runs for a device link: their contents are in the key."""

from __future__ import annotations

import os

from hipcache.errors import PassThrough
from hipcache.execution.session import Session
from hipcache.planning import driver, tools
from hipcache.planning.jobs import split
from hipcache.planning.lld import known_link
from hipcache.planning.wrapper_plan import WrapperPlan


def keyed(session: Session, plan: WrapperPlan, processor: str, triple: str) -> list[tuple[str, str]]:
    """The parts of each key for the wrapper, for the clang that it runs, and for the lld that this runs. (Differences
    between architectures follow from the arch.)"""
    beside = os.path.dirname(os.path.realpath(session.files.resolve(plan.job.program)))
    clang = os.path.join(beside, "clang")
    level = next((word[len("--opt-level=") :] for word in plan.options if word.startswith("--opt-level=")), "O2")
    words = [clang, "-###", "--no-default-config", "-o", "code object", f"--target={triple}", f"-mcpu={processor}"]
    words += [f"-{level}", "-Wl,--no-undefined", "/dev/null"]
    words += [
        word.partition("=")[2].partition("=")[2] for word in plan.options if word.startswith("--device-compiler=")
    ]
    runner, cwd = session.jobs.runner, session.command.cwd
    _, said = driver.answer(words, words, cwd, session.engine, runner, lambda: session.jobs.workdir)
    jobs, messages = split(said.text)
    if len(jobs) != 1:
        raise PassThrough("plan", f"clang links device code with {len(jobs)} jobs")
    program, *options = jobs[0]
    # It will say so in each device link: that some of its words, which variables choose, too, are of no use.
    inputs = [("compiler's message", messages)] if messages else []
    for name, path in (("linker wrapper", plan.job.program), ("compiler", clang), ("linker", program)):
        inputs.append((name, session.tool(path)))
    return inputs + [("linker option", word.replace(processor, "arch")) for word in known_link(tuple(options))]


def nothing(session: Session) -> str:
    """The path of a program that does nothing."""
    found = tools.which("true", session.command.cwd, session.engine.environ)
    if not found:
        raise PassThrough("tool", "no 'true' on PATH")
    return found
