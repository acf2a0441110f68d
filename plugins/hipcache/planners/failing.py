"""A failing compile ends exactly like plain clang's: its text, its status, and the outputs that it leaves.

The driver runs its jobs in order and stops at the first failure (clang/lib/Driver/Compilation.cpp: `ActionFailed`). So
the user reads the messages of the passes before it, then those of the failing pass, and gets its status. For all other
failures (back end, linker, crash) the user's own command runs again and prints the error.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path

from hipcache.base.errors import CommandFailed, JobFailed, PassThrough
from hipcache.base.patterns import pattern
from hipcache.build import End, delivery, ended
from hipcache.clang import driver
from hipcache.clang.cc1 import Role
from hipcache.clang.command import messages_file
from hipcache.clang.jobs import split
from hipcache.execution.passes import PassFailed
from hipcache.execution.session import Session
from hipcache.planners.source import SourceGraph, dependency_rules

# A word with such a path (see `disk/paths`).
_OF_KERNEL = pattern(rb"/dev/(?!shm/)|/proc/|/dev/shm/.*\.\.")


def reported(source: SourceGraph, failed: JobFailed, ends: Mapping[str, End]) -> JobFailed:
    """The failure as plain clang reports it, with the outputs that clang leaves. Returns `failed` itself if the user's
    own command must run. Raises PassThrough if clang would have failed differently."""
    session, planned = source.session, source.plan
    if not isinstance(failed, PassFailed) or not planned.in_order:
        return failed
    if session.command.unwrapped or not _has_read_all(session, failed):  # a script may have more to say
        return failed
    output = failed.front.job.value(Role.OUTPUT)
    slots = takewhile(lambda name: name != output, source.texts)
    before = [end for end in (ended(ends, source.texts[name]) for name in slots) if end]
    if output in planned.outputs:
        delivery.check_places([session.command.path(output)])
    # From clang 22 on, the device's passes write none.
    rule = failed.front.job.value(Role.DEPENDENCIES, "-dependency-file")
    if rule and failed.dependencies is not None:
        for one in dependency_rules(session, [source]):
            delivery.write_lists(one, [failed.dependencies, *(end.result.files for end in before)])
    elif rule:
        _remove_rule(session.command.path(rule))
    if output in planned.outputs:
        delivery.clean_up(session.command.path(output))
    text = planned.messages + "".join(end.result.text for end in before) + failed.text
    return CommandFailed(failed.job, failed.status, text)


def refused(session: Session, failed: JobFailed, cuid: str, columns: int | None) -> JobFailed:
    """The failure of a command that the driver refuses (an unknown option, no such file). It plans nothing then, and
    prints its message for `-###`, too, after its banner. Returns `failed` itself if the driver may print more for the
    command, or if the message is about an option that hipcache added."""
    try:
        jobs, text = split(os.fsdecode(failed.said))
    except PassThrough:
        return failed
    command = session.command
    known = failed.job == driver.DRIVER and failed.status == 1 and columns is None and not command.unwrapped
    ours = [str(session.jobs.workdir), *([cuid] if cuid else [])]
    if not known or jobs or ": error: " not in text or any(os.fsencode(line) in failed.said for line in ours):
        return failed
    # Without the source there are no inputs, which `-###` does not say; and messages in a file are none of the text.
    if "no such file or directory" in text or messages_file(command.argv)[1]:
        return failed
    return CommandFailed(failed.job, failed.status, text)


def _has_read_all(session: Session, failed: PassFailed) -> bool:
    """False if it may have read what the user's compiler has and it has not: standard input, or a file that can be
    read but once."""
    command = session.command
    try:
        texts = [os.fsencode(word) for word in command.arguments]
        if failed.dependencies is None:  # a header is missing, and nothing tells which others were read
            texts.append(Path(command.path(command.source)).read_bytes())
        if any(_OF_KERNEL.search(text) for text in texts):
            return False
        return all(os.path.isfile(session.files.resolve(dependency.path)) for dependency in failed.dependencies or ())
    except OSError:
        return False


def _remove_rule(path: str) -> None:
    """Do as clang does if a header is missing."""
    if os.path.islink(path) or (os.path.exists(path) and not os.path.isfile(path)):
        raise PassThrough("side_output", f"'{path}'")
    try:
        Path(path).unlink(missing_ok=True)
    except OSError as error:
        raise PassThrough("output", f"'{path}': {error.strerror}") from error
