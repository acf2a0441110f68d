"""A lab whose back ends and device links may run at the workers of a real server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from hip import LAUNCHER, Lab
from hipcache.processes.slots import SharedSlots
from remote_lab import Server, Team, executor, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(executor(tmp_path_factory.mktemp("executor"))) as one:
        yield one


@pytest.fixture
def lab(server: Server, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """All goes to the executor that can."""
    team = Team(tmp_path, "", getattr(request, "param", "19"))
    lab = team.machine()
    lab.environ["HIPCACHE_EXECUTOR"] = f"{server.url}?prefer"
    yield lab
    team.end()


def told(lab: Lab, executors: str) -> str:
    """What a compile with these says, for one architecture; its object is plain clang's."""
    lab.environ["HIPCACHE_EXECUTOR"] = executors
    words = lab.words("-O3", "--offload-arch=gfx906")
    assert lab.run(words).status == 0
    plain = (lab.root / "out.o").read_bytes()
    (lab.root / "out.o").unlink()
    made = lab.run([*LAUNCHER, *words])
    assert made.status == 0
    assert (lab.root / "out.o").read_bytes() == plain
    return made.err.decode()


@contextmanager
def all_slots_held(lab: Lab, limit: int) -> Iterator[None]:
    runtime = Path(lab.environ["XDG_RUNTIME_DIR"]) / "hipcache"
    runtime.mkdir(mode=0o700)
    slots = SharedSlots(limit, str(runtime))
    with ExitStack() as held:
        for _ in range(limit):
            slot = slots.attempt()
            assert slot
            held.enter_context(slot)
        yield
