"""A storage helper that ends while it fetches a whole build."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from remote_lab import SECONDS, nginx, running, sockets, uploaded
from remote_team import helpers, patient
from test_prefetch import ARCHES, Machines, ahead
from turns_proxy import Turns, counted


@pytest.fixture
def far(tmp_path: Path) -> Iterator[tuple[Machines, Turns]]:
    with running(nginx(tmp_path / "server")) as server, counted(server.port) as turns:
        machines = Machines(tmp_path, patient(server.url))
        yield machines, turns
        machines.team.end()


@pytest.mark.parametrize("turn", [1, 2])
def test_a_helper_that_is_killed_while_it_fetches_a_build_costs_no_object(
    far: tuple[Machines, Turns], turn: int
) -> None:
    machines, turns = far
    first = machines.fresh()
    objects = machines.build(first, *ARCHES)
    uploaded(first)
    second = machines.fresh()
    second.environ["HIPCACHE_REMOTE"] = patient(f"http://127.0.0.1:{turns.port}/team")
    turns.store = second.store
    machines.listed(second, *ARCHES)
    killed = threading.Event()

    def kill() -> None:
        end = time.monotonic() + SECONDS
        while turns.count < turn and time.monotonic() < end:
            time.sleep(0.002)
        for place in sockets(second):
            for process in helpers(place):
                os.kill(int(process.name), signal.SIGKILL)
                killed.set()

    killer = threading.Thread(target=kill)
    killer.start()
    step = ahead(second, "--step")
    killer.join(SECONDS)
    assert killed.is_set()
    assert step.status == 0
    assert machines.build(second, *ARCHES) == objects
