"""What comes of an execution: results that a team shares, and workers without space."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from executor_lab import Liar, lying, result
from hip import HIT, LAUNCHER, MISS, Lab
from remote_lab import Server, Team, execution_counts, executor, nginx, remote_counts, running, uploaded
from workers_lab import told

pytestmark = pytest.mark.archs(1)

NO_SPACE = 8  # RESOURCE_EXHAUSTED


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(executor(tmp_path_factory.mktemp("executor"))) as one:
        yield one


@pytest.fixture
def lab(server: Server, tmp_path: Path) -> Iterator[Lab]:
    """All goes to the executor that can."""
    team = Team(tmp_path, "")
    lab = team.machine()
    lab.environ["HIPCACHE_EXECUTOR"] = f"{server.url}?prefer"
    yield lab
    team.end()


@pytest.mark.archs(2)
def test_what_one_machine_had_made_elsewhere_is_a_hit_for_all(server: Server, tmp_path: Path) -> None:
    """The cache is another server: nothing comes from that of the executor."""
    with running(nginx(tmp_path / "cache")) as cache:
        team = Team(tmp_path, f"{cache.url}?timeout=30")
        first, second = team.machine(), team.machine()
        first.environ["HIPCACHE_EXECUTOR"] = f"{server.url}?prefer"
        made = first.compile("-O3")
        assert made.outcome == MISS
        assert execution_counts(first) == {"done": 2}, "its back ends ran there"
        uploaded(first)
        served = second.compile("-O3")
        assert (served.outcome, served.object) == (HIT, made.object)
        assert remote_counts(second)["hits"] > 0
        assert execution_counts(second) == {}
        assert served.counted.back_ends == 0
        team.end()


def full(response: Any) -> None:
    """A worker that cannot even begin."""
    response.ClearField("result")
    response.status.code, response.status.message = NO_SPACE, "no space left on device"


def unwritten(response: Any) -> None:
    """The command found no space for its output, and said so."""
    response.result.exit_code = 1
    response.result.ClearField("stderr_digest")
    response.result.stderr_raw = b"error: unable to open output file 'out': 'No space left on device'\n"
    del response.result.output_files[:]


@pytest.mark.parametrize(("how", "kind"), [(full, "worker"), (unwritten, "status")], ids=["worker", "output"])
def test_a_worker_without_space_costs_no_more_than_a_compile_here(
    server: Server, lab: Lab, how: Any, kind: str
) -> None:
    with lying(Liar(server.port, {"Execute": result(how)})) as url:
        said = told(lab, f"{url}?prefer")
    assert said.count("hipcache: everything is compiled on this machine: executor 'grpc://127.0.0.1") == 1, said
    assert execution_counts(lab) == {kind: 1} | ({"failed": 1} if kind == "status" else {})
    lab.environ["HIPCACHE_EXECUTOR"] = "none"
    assert lab.run([*LAUNCHER, *lab.words("-O3", "--offload-arch=gfx906")]).err == b""
