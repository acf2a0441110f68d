"""Machines of a team that share a remote."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from remote_lab import SERVERS, Server, Team, nginx, running


@pytest.fixture(params=SERVERS)
def team(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Team]:
    """With a server of each kind."""
    with running(SERVERS[request.param](tmp_path / "server")) as server:
        yield from _team(tmp_path, patient(server.url))


def patient(url: str) -> str:
    """Other tests may keep the machine busy."""
    return f"{url}{'&' if '?' in url else '?'}timeout=30"


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Server]:
    with running(nginx(tmp_path / "server")) as server:
        yield server


@pytest.fixture
def webbed(tmp_path: Path, web: Server) -> Iterator[Team]:
    """With nginx, whose files a test can change."""
    yield from _team(tmp_path, patient(web.url))


def _team(root: Path, url: str) -> Iterator[Team]:
    team = Team(root, url)
    yield team
    team.end()


def end_helper(place: Path) -> None:
    """SIGKILL; the socket stays behind."""
    for process in helpers(place):
        os.kill(int(process.name), signal.SIGKILL)
    end = time.monotonic() + 60
    while helpers(place):
        assert time.monotonic() < end, "it does not end"
        time.sleep(0.01)


def helpers(place: Path) -> list[Path]:
    """Directories in /proc of those that listen there."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            if b"--storage-helper" in words and words[-1].startswith(os.fsencode(place.parent)):
                found.append(process)
    return found
