"""A compile that fails ends as plain clang's would have: its text, its status, what it leaves of the outputs.

The driver runs its jobs one after the other and stops at the first that fails (clang/lib/Driver/Compilation.cpp:
`ActionFailed`). So what the user reads is what the passes before it said, then what that one said, and the status is
its own. All other failures (of a back end, a linker, a crash) are told by the user's own command, run anew.
"""

from __future__ import annotations

import os
from pathlib import Path

from hipcache.delivery import files
from hipcache.errors import CommandFailed, JobFailed, PassThrough
from hipcache.making import delivery
from hipcache.making.passes import PassFailed
from hipcache.planning import driver, plan
from hipcache.planning.cc1 import Role
from hipcache.planning.command import messages_file
from hipcache.planning.plan import Plan
from hipcache.session import Session, decode


def told(session: Session, planned: Plan, failed: PassFailed) -> JobFailed:
    """The failure as plain clang tells it; what it leaves of the outputs is left so. `failed` itself where the user's
    own command knows better. Raises PassThrough where clang would have failed otherwise."""
    if not planned.in_order or session.command.unwrapped:  # a script may have more to say
        return failed
    output = failed.front.job.value(Role.OUTPUT)
    if output in planned.outputs:
        files.check_places([session.command.path(output)])
    rule = planned.first.value(Role.DEPENDENCIES, "-dependency-file")
    if failed.dependencies is not None:
        lists = [failed.dependencies, *(read for _, read in failed.before)]
        delivery.write_rule(session, planned, lists)
    elif rule:
        _remove_rule(session.command.path(rule))
    if output in planned.outputs:
        files.clean_up(session.command.path(output))
    text = planned.messages + "".join(said for said, _ in failed.before) + failed.text
    return CommandFailed(failed.job, failed.status, text)


def refused(session: Session, failed: JobFailed, cuid: str, columns: int | None) -> JobFailed:
    """The driver refuses the command (an unknown option, no such file), and has planned nothing: it says why, to `-###`
    as ever, behind its banner. `failed` itself where it may say more, or of an option of ours."""
    try:
        jobs, text = plan.split(decode(failed.said))
    except PassThrough:
        return failed
    command = session.command
    known = failed.job == driver.DRIVER and failed.status == 1 and columns is None and not command.unwrapped
    ours = [str(session.workdir), *([cuid] if cuid else [])]
    if not known or jobs or ": error: " not in text or any(one in text for one in ours):
        return failed
    # Without the source there are no inputs, which `-###` does not say; and messages in a file are none of the text.
    if "no such file or directory" in text or messages_file(command.argv)[1]:
        return failed
    return CommandFailed(failed.job, failed.status, text)


def _remove_rule(path: str) -> None:
    """As clang does where a header is missing."""
    if os.path.islink(path) or (os.path.exists(path) and not os.path.isfile(path)):
        raise PassThrough("side_output", f"'{path}'")
    try:
        Path(path).unlink(missing_ok=True)
    except OSError as error:
        raise PassThrough("store", f"'{path}': {error.strerror}") from error
