"""Asks the compiler driver for its plan."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hipcache import plan
from hipcache.command import Command
from hipcache.errors import PassThrough
from hipcache.plan import Plan
from hipcache.runner import Runner


def ask(
    command: Command, cuid: str, runner: Runner, environ: Mapping[str, str], *, columns: int | None, scratch: Path
) -> Plan:
    """The plan for `command`. `cuid` is empty where the user has chosen one; `columns`: the width of the
    terminal that messages go to, None if they do not go to one; `scratch`: a directory for what the driver leaves
    behind (clang 15 makes the directories for its temporary files even when it only plans). Raises PassThrough."""
    # The driver looks whether its own standard error is a terminal: ours is, its is not. These come first, so
    # that the user's options win.
    look = [] if columns is None else ["-fcolor-diagnostics", f"-fmessage-length={columns}"]
    own = [f"-cuid={cuid}"] if cuid else []
    try:
        # All of ours go first, since a `--` may end the options.
        answer = runner.run(
            [command.compiler, "-###", *look, *own, *command.argv[1:]],
            env={**environ, "TMPDIR": str(scratch)},
            cwd=Path(command.cwd),
        )
    except OSError as error:
        raise PassThrough("driver", str(error)) from error
    if answer.status != 0 or answer.stdout:
        raise PassThrough("driver", f"-### ended with status {answer.status}")
    found = plan.parse(os.fsdecode(answer.stderr))
    if "error:" in found.messages:
        # clang 15 plans on after an error (an -Xarch_ option that cannot be forwarded) and ends with status 0.
        raise PassThrough("driver", found.messages.strip())
    return found
