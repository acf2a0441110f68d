"""The host's link: the last step of a program, run each time, with the driver's words where it fails."""

from __future__ import annotations

import os
from collections.abc import Mapping

from hipcache.delivery import files
from hipcache.errors import HostLinkFailed
from hipcache.execution.local import place, said
from hipcache.execution.session import Session
from hipcache.model import EACH_TIME, Action, Inputs, Ran, Source, Step
from hipcache.planning.jobs import ToolJob
from hipcache.planning.link_plan import value_after

_NO_INPUT = ": error: no input files\n"


def action(session: Session, job: ToolJob, inputs: Mapping[str, Source], columns: int | None) -> Action:
    """The linker as the plan has it. `inputs`: temporary files that it reads, by their places in the scratch."""

    def link(read: Inputs) -> Ran:
        for name in inputs:
            place(session, name, read)
        return run(session, job, columns=columns)

    return last(Step(link), inputs)


def last(work: Step, inputs: Mapping[str, Source]) -> Action:
    """The last action of a program."""
    return Action("host link", "", "host link", work, (), tuple(inputs.items()), (), EACH_TIME)


def run(session: Session, job: ToolJob, *, columns: int | None) -> Ran:
    """Write the program. Raises HostLinkFailed, JobFailed, PassThrough."""
    done = session.jobs.attempt([job.program, *job.arguments])
    text = said(session, done.stderr)
    # With colours the driver's line would look otherwise, and hipcc may add one of its own.
    coloured = columns is not None or any("color" in word for word in session.command.arguments)
    known = not coloured and not session.command.unwrapped
    if done.status > 0 and not done.stdout and known and (name := _name_in_messages(session)):
        files.clean_up(session.command.path(value_after(job, "-o")))
        last = f"error: linker command failed with exit code {done.status} (use -v to see invocation)\n"
        raise HostLinkFailed(done.status, f"{text}{name}: {last}")
    session.jobs.ended_well("host link", done)
    return Ran({}, text, done.work)


def run_command(session: Session, words: list[str], messages: str) -> Ran:
    """The same by a command of the driver's, which says `messages` first; these are told by now."""
    done = session.jobs.attempt(words)
    text = os.fsdecode(done.stderr).removeprefix(messages)
    if done.status > 0 and not done.stdout:
        raise HostLinkFailed(done.status, text)
    session.jobs.ended_well("host link", done)
    return Ran({}, text, done.work)


def _name_in_messages(session: Session) -> str:
    """What the driver calls itself (15 the file that it is, 19 what it was called by); empty where it does not say."""
    prefixes = [word for word in session.command.arguments if word.endswith("-canonical-prefixes")]
    said = os.fsdecode(session.jobs.attempt([session.command.compiler, *prefixes]).stderr)
    return said.removesuffix(_NO_INPUT) if said.endswith(_NO_INPUT) and said.count("\n") == 1 else ""
