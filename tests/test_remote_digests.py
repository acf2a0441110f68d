"""A server whose digests are others than SHA-256: hipcache says so, asks it for nothing, and compiles here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from executor_lab import Liar, lying
from hip import LAUNCHER, Lab
from hipcache.remote import reapi_pb2 as pb
from remote_lab import Server, Team, execution_counts, executor, running

BLAKE3 = 9  # of the Remote Execution API
SAID = "it does not support SHA-256 digests"
pytestmark = pytest.mark.archs(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(executor(tmp_path_factory.mktemp("executor"))) as one:
        yield one


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    team = Team(tmp_path, "")
    yield team.machine()
    team.end()


def other_digests(answer: bytes) -> bytes:
    found = pb.ServerCapabilities.FromString(answer)
    found.cache_capabilities.digest_functions[:] = [BLAKE3]
    return bytes(found.SerializeToString())


def told(lab: Lab) -> str:
    """What a compile says; its object is plain clang's."""
    words = lab.words("-O3", "--offload-arch=gfx906")
    assert lab.run(words).status == 0
    plain = (lab.root / "out.o").read_bytes()
    (lab.root / "out.o").unlink()
    made = lab.run([*LAUNCHER, *words])
    assert made.status == 0
    assert (lab.root / "out.o").read_bytes() == plain
    return made.err.decode()


def test_it_runs_no_actions(server: Server, lab: Lab) -> None:
    liar = Liar(server.port, {"GetCapabilities": other_digests})
    with lying(liar) as url:
        lab.environ["HIPCACHE_EXECUTOR"] = f"{url}?prefer"
        assert SAID in told(lab)
        assert SAID in lab.hipcache("doctor", "--compiler", "/bin/false").out.decode()
    assert execution_counts(lab) == {"settings": 1}
    assert set(liar.asked) == {"GetCapabilities"}


def test_nothing_is_sent_to_it(server: Server, lab: Lab) -> None:
    liar = Liar(server.port, {"GetCapabilities": other_digests})
    with lying(liar) as url:
        lab.environ |= {"HIPCACHE_REMOTE": f"{url}?timeout=30&write-only", "HIPCACHE_EXECUTOR": "none"}
        assert told(lab) == ""
        synced = lab.hipcache("sync")
        assert (synced.status, SAID in synced.err.decode()) == (1, True), synced
    assert set(liar.asked) == {"GetActionResult", "GetCapabilities"}


def test_a_question_that_it_refuses_is_told_in_these_words(server: Server, lab: Lab) -> None:
    liar = Liar(server.port, {"GetCapabilities": other_digests}, refused=["GetActionResult"])
    with lying(liar) as url:
        lab.environ |= {"HIPCACHE_REMOTE": f"{url}?timeout=30&read-only", "HIPCACHE_EXECUTOR": "none"}
        assert SAID in told(lab)
    assert set(liar.asked) == {"GetActionResult", "GetCapabilities"}
