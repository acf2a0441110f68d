"""A list of a build's commands that comes through a pipe."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hip import LAUNCHER
from hipcache.base.errors import HipcacheError
from hipcache.remote import prefetch
from hipcache.remote.helper.commands import listed
from remote_lab import uploaded
from remote_team import web
from test_prefetch import ARCHES, Machines, webbed

__all__ = ["web", "webbed"]


def test_what_the_shell_has_opened_is_read_here(webbed: Machines) -> None:
    first = webbed.fresh()
    webbed.build(first, *ARCHES)
    uploaded(first)
    second = webbed.fresh()
    webbed.listed(second, *ARCHES)
    shell = '"$@" prefetch <(cat compile_commands.json); "$@" prefetch /dev/fd/5 5<compile_commands.json'
    ended = second.run(["bash", "-c", shell, "bash", *LAUNCHER])
    assert (ended.status, ended.err) == (0, b"")
    assert b"of 2 HIP compiles 2 fetched" in ended.out
    assert b"2 already here" in ended.out


def test_a_pipe_that_nobody_writes_to_costs_no_more_than_the_time_limit(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(HipcacheError, match="does not end in time"), prefetch._readable(str(pipe), time.monotonic()):
        pass
    with pytest.raises(HipcacheError, match="it is not a file"):
        listed(str(pipe))
