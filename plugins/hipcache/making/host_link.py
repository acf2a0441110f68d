"""The host's linker, run as the driver's plan has it, with the driver's words where it fails."""

from __future__ import annotations

import os

from hipcache.errors import HostLinkFailed
from hipcache.making import device_link
from hipcache.planning.link_plan import value_after
from hipcache.planning.plan import ToolJob
from hipcache.session import Session, decode

_NO_INPUT = ": error: no input files\n"


def run(session: Session, job: ToolJob, messages: str, *, columns: int | None) -> str:
    """Write the program; what was said on the way to it, `messages` first. Raises HostLinkFailed, JobFailed,
    PassThrough."""
    # Without a slot: in the main thread a signal could lose it.
    done = session.attempt([job.program, *job.arguments])
    text = messages + device_link.said(session, done.stderr)
    # With colours the driver's line would look otherwise, and hipcc may add one of its own.
    known = columns is None and not session.command.unwrapped
    if done.status > 0 and not done.stdout and known and (name := _name_in_messages(session)):
        _clean_up(session.command.path(value_after(job, "-o")))
        last = f"error: linker command failed with exit code {done.status} (use -v to see invocation)\n"
        raise HostLinkFailed(done.status, f"{text}{name}: {last}")
    session.ended_well("host link", done)
    return text


def _clean_up(output: str) -> None:
    """As the driver does after a job that failed (`Compilation::CleanupFile`); a linker may leave an old program."""
    if os.path.isfile(output) and os.access(output, os.W_OK):
        os.unlink(output)


def _name_in_messages(session: Session) -> str:
    """What the driver calls itself (15 the file that it is, 19 what it was called by); empty where it does not say."""
    prefixes = [word for word in session.command.arguments if word.endswith("-canonical-prefixes")]
    said = decode(session.attempt([session.command.compiler, *prefixes]).stderr)
    return said.removesuffix(_NO_INPUT) if said.endswith(_NO_INPUT) and said.count("\n") == 1 else ""
