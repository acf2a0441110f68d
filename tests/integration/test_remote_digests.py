"""A server whose digests are others than SHA-256: hipcache says so, asks it for nothing, and compiles here."""

from __future__ import annotations

import pytest
from executor_lab import Liar, lying
from hip import Lab
from hipcache.remote import reapi_pb2 as pb
from remote_lab import Server, execution_counts
from workers_lab import lab, server, told

__all__ = ["lab", "server"]

BLAKE3 = 9  # of the Remote Execution API
SAID = "it does not support SHA-256 digests"
pytestmark = pytest.mark.archs(1)


def other_digests(answer: bytes) -> bytes:
    found = pb.ServerCapabilities.FromString(answer)
    found.cache_capabilities.digest_functions[:] = [BLAKE3]
    return bytes(found.SerializeToString())


def test_it_runs_no_actions(server: Server, lab: Lab) -> None:
    liar = Liar(server.port, {"GetCapabilities": other_digests})
    with lying(liar) as url:
        assert SAID in told(lab, f"{url}?prefer")
        assert SAID in lab.hipcache("doctor", "--compiler", "/bin/false").out.decode()
    assert execution_counts(lab) == {"settings": 1}
    assert set(liar.asked) == {"GetCapabilities"}


def test_nothing_is_sent_to_it(server: Server, lab: Lab) -> None:
    liar = Liar(server.port, {"GetCapabilities": other_digests})
    with lying(liar) as url:
        lab.environ["HIPCACHE_REMOTE"] = f"{url}?timeout=30&write-only"
        assert told(lab, "none") == ""
        synced = lab.hipcache("sync")
        assert (synced.status, SAID in synced.err.decode()) == (1, True), synced
    assert set(liar.asked) == {"GetActionResult", "GetCapabilities"}


def test_a_question_that_it_refuses_is_told_in_these_words(server: Server, lab: Lab) -> None:
    liar = Liar(server.port, {"GetCapabilities": other_digests}, refused=["GetActionResult"])
    with lying(liar) as url:
        lab.environ["HIPCACHE_REMOTE"] = f"{url}?timeout=30&read-only"
        assert SAID in told(lab, "none")
    assert set(liar.asked) == {"GetActionResult", "GetCapabilities"}


def test_a_server_that_cannot_say_is_used(server: Server, lab: Lab) -> None:
    liar = Liar(server.port, {}, lacks=["GetCapabilities"])
    with lying(liar) as url:
        lab.environ["HIPCACHE_REMOTE"] = f"{url}?timeout=30"
        assert told(lab, "none") == ""
        assert lab.hipcache("sync").status == 0
    assert "UpdateActionResult" in liar.asked
