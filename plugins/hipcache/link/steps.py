"""The actions that links have in common: the device link of an offload arch, and the host's link.

A device link (LTO) is keyed by the contents of its inputs, its options and tools; the key contains names of the user's
files only as far as `explain` shows them. The host's link is the last step of a program: it runs each time, with the
driver's words where it fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from hipcache.base.errors import HostLinkFailed, JobFailed, PassThrough
from hipcache.base.patterns import pattern
from hipcache.build import (
    EACH_TIME,
    Action,
    ActionId,
    ActionOutput,
    Cache,
    Inputs,
    Policy,
    Process,
    Ran,
    Source,
    Step,
    Unit,
    Word,
    delivery,
)
from hipcache.clang.jobs import ToolJob, output_of
from hipcache.execution.local import place, said
from hipcache.execution.session import Session
from hipcache.processes import decode
from hipcache.report.outcome import LINK

CODE = "code"


def device_link(
    arch: str,
    command: tuple[Word, ...],
    place: str,
    parts: Sequence[tuple[str, Word]],
    inputs: Sequence[tuple[str, Source]],
    root: str = "",
    *,
    stored: bool = True,
) -> Action:
    """`command` writes `CODE` to `place` in the scratch. `stored`: may what it writes be kept?"""
    id = ActionId("device link", arch)
    return Action(
        id=id,
        kind=id.kind,
        label=str(id),
        work=Process(command, root, ((CODE, place),)),
        parts=tuple(parts),
        inputs=tuple(inputs),
        outputs=(CODE,),
        policy=Policy(remote=True, assembles=True) if stored else Policy(Cache.NEVER),
        missing="nothing is stored for this device code",
    )


def code_of(action: Action) -> ActionOutput:
    return ActionOutput(action.id, CODE)


def unit_of(arch: str, action: Action, *, several: bool) -> Unit:
    """It counts as a link, and as a unit of its arch. `several`: are there other units of the arch?"""
    return Unit(action.id, f"link of {arch}" if several else arch, (arch, LINK))


_OF_FORMAT = pattern(r"color|message-length=(?!0$)")
_NO_INPUT = ": error: no input files\n"


def host_link(session: Session, job: ToolJob, inputs: Mapping[str, Source], columns: int | None) -> Action:
    """The linker as the plan has it. `inputs`: temporary files that it reads, by their places in the scratch."""

    def link(read: Inputs) -> Ran:
        for name in inputs:
            place(session, name, read)
        return run_host_link(session, job, columns=columns)

    return last_step(session, link, inputs)


def last_step(session: Session, work: Callable[[Inputs], Ran], inputs: Mapping[str, Source]) -> Action:
    """The last action of a program."""

    def link(read: Inputs) -> Ran:
        with _as_found(session.command.path(session.command.output)):
            return work(read)

    return Action(ActionId("host link"), "", "host link", Step(link), (), tuple(inputs.items()), (), EACH_TIME)


def run_host_link(session: Session, job: ToolJob, *, columns: int | None, wrapper: str = "") -> Ran:
    """Write the program. `wrapper`: what the linker wrapper, which is not run, would say if the linker fails; it would
    end with status 1. Raises HostLinkFailed, JobFailed, PassThrough."""
    done = session.jobs.attempt([job.program, *job.arguments])
    text = said(session, done.stderr)
    # With colours or wrapped the driver's line would look otherwise, and hipcc may add one of its own.
    words = (*session.command.arguments, *session.context.environ.get("CCC_OVERRIDE_OPTIONS", "").split(" "))
    known = columns is None and not any(map(_OF_FORMAT.search, words)) and not session.command.unwrapped
    if done.status > 0 and not done.stdout and known and (name := _name_in_messages(session)):
        delivery.clean_up(session.command.path(output_of(job)))
        status = 1 if wrapper else done.status
        last = f"error: linker command failed with exit code {status} (use -v to see invocation)\n"
        raise HostLinkFailed(status, f"{text}{wrapper}{name}: {last}")
    session.jobs.ended_well("host link", done)
    return Ran({}, text, done.work)


def run_command(session: Session, words: list[str], messages: str) -> Ran:
    """The same by a command of the driver's, which says `messages` first; these are told by now."""
    done = session.jobs.attempt(words)
    text = decode(done.stderr).removeprefix(messages)
    if done.status > 0 and not done.stdout:
        raise HostLinkFailed(done.status, text)
    session.jobs.ended_well("host link", done)
    return Ran({}, text, done.work)


@contextmanager
def _as_found(output: str) -> Iterator[None]:
    """If the compiler itself has to link instead, it finds a symbolic link to no file as it was: GNU ld writes through
    such a link, but replaces one to a file."""
    to = os.readlink(output) if os.path.islink(output) and not os.path.exists(output) else ""
    try:
        yield
    except (JobFailed, PassThrough):
        if to:
            with suppress(OSError):  # the compiler says what it cannot write
                Path(os.path.realpath(output)).unlink(missing_ok=True)
                if not os.path.islink(output):
                    os.symlink(to, output)
        raise


def _name_in_messages(session: Session) -> str:
    """The name of the driver in its messages (15: its file, 19: the word that called it); empty if it has none."""
    prefixes = [word for word in session.command.arguments if word.endswith("-canonical-prefixes")]
    said = decode(session.jobs.attempt([session.command.compiler, *prefixes]).stderr)
    return said.removesuffix(_NO_INPUT) if said.endswith(_NO_INPUT) and said.count("\n") == 1 else ""
