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
from hipcache.planning.cc1 import Role
from hipcache.planning.plan import Plan
from hipcache.session import Session


def told(session: Session, plan: Plan, failed: PassFailed) -> JobFailed:
    """The failure as plain clang tells it; what it leaves of the outputs is left so. `failed` itself where the user's
    own command knows better. Raises PassThrough where clang would have failed otherwise."""
    if not plan.in_order or session.command.unwrapped:  # a script may have more to say
        return failed
    output = failed.front.job.value(Role.OUTPUT)
    if output in plan.outputs:
        files.check_places([session.command.path(output)])
    rule = plan.first.value(Role.DEPENDENCIES, "-dependency-file")
    if failed.dependencies is not None:
        lists = [failed.dependencies, *(read for _, read in failed.before)]
        delivery.write_rule(session, plan, lists)
    elif rule:
        _remove_rule(session.command.path(rule))
    if output in plan.outputs:
        files.clean_up(session.command.path(output))
    text = plan.messages + "".join(said for said, _ in failed.before) + failed.text
    return CommandFailed(failed.job, failed.status, text)


def _remove_rule(path: str) -> None:
    """As clang does where a header is missing."""
    if os.path.islink(path) or (os.path.exists(path) and not os.path.isfile(path)):
        raise PassThrough("side_output", f"'{path}'")
    try:
        Path(path).unlink(missing_ok=True)
    except OSError as error:
        raise PassThrough("store", f"'{path}': {error.strerror}") from error
