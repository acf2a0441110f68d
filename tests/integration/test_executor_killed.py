"""A worker, or its whole server, that is killed in the middle of an action: the object is made here."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hip import Lab
from remote_lab import SECONDS, Server, Team, execution_counts, executor, running
from workers_lab import told

pytestmark = pytest.mark.archs(1)

# Stands before the real worker, which it stops as soon as it has begun.
_STOPPED = """\
#!/bin/sh
case " $* " in *" --capabilities "*) exec {real} "$@";; esac
{real} "$@" &
kill -STOP $!
echo $! > {place}/worker.new && mv {place}/worker.new {place}/worker
wait $!
"""


def with_stopped_workers(place: Path) -> Server:
    server = executor(place)
    option = "--buildbox-run="
    real = next(word for word in server.argv if word.startswith(option)).removeprefix(option)
    script = place / "buildbox-run"
    script.write_text(_STOPPED.format(real=real, place=place))
    script.chmod(0o755)
    server.argv = [f"{option}{script}" if word.startswith(option) else word for word in server.argv]
    return server


def kill_worker(server: Server) -> None:
    os.kill(int((server.place / "worker").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("kill", [kill_worker, Server.kill], ids=["worker", "server"])
def test_an_action_whose_worker_is_killed_is_run_here(kill: Callable[[Server], None], tmp_path: Path) -> None:
    with running(with_stopped_workers(tmp_path / "server")) as server:
        killed = threading.Event()

        def wait_and_kill() -> None:
            end = time.monotonic() + 60
            while time.monotonic() < end and not killed.is_set():
                if (server.place / "worker").exists():
                    kill(server)
                    killed.set()
                time.sleep(0.02)

        beside = threading.Thread(target=wait_and_kill)
        beside.start()
        team = Team(tmp_path, "")
        lab: Lab = team.machine()
        # The object is plain clang's: `told` compares them.
        told(lab, f"{server.url}?prefer&timeout={SECONDS:.0f}&limit=60")
        beside.join(SECONDS)
        team.end()
    assert killed.is_set(), "no action has reached a worker"
    counts = execution_counts(lab)
    assert counts
    assert "done" not in counts
