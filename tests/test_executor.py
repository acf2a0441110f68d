"""Back ends and device links that workers of a server run: what comes back is what this machine would have made, and
whatever goes wrong there, it is made here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hip import LAUNCHER, MISS, Lab, kernel
from remote_lab import Server, Team, execution_counts, executor, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(executor(tmp_path_factory.mktemp("executor"))) as one:
        yield one


@pytest.fixture
def lab(server: Server, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """All goes to the executor that can."""
    yield from _lab(tmp_path, f"{server.url}?prefer", getattr(request, "param", "19"))


def _lab(root: Path, executors: str, version: str = "19") -> Iterator[Lab]:
    team = Team(root, "", version)
    lab = team.machine()
    lab.environ["HIPCACHE_EXECUTOR"] = executors
    yield lab
    team.end()


@pytest.mark.parametrize("lab", ["15", "19"], indirect=True)
@pytest.mark.parametrize("flags", [["-O3"], ["-O2", "-g"], ["-foffload-lto"]], ids=" ".join)
def test_what_workers_make_is_what_this_machine_makes(lab: Lab, flags: list[str]) -> None:
    assert lab.compile(*flags).outcome == MISS
    assert execution_counts(lab) == {"done": 2}
    assert "compiled by executor 'grpc://127.0.0.1" in lab.hipcache("explain").out.decode()
