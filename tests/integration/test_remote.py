"""A team's cache: what one machine has compiled is served to all others, and nothing that a remote does is worse than
a miss."""

from __future__ import annotations

import time
from pathlib import Path

from hip import LAUNCHER, PARTIAL, explained, kernel
from hipcache.remote.helper.remotes import examine
from remote_lab import HIT, MISS, Server, Team, remote_counts, uploaded
from remote_team import patient, team, web, webbed

__all__ = ["team", "web", "webbed"]


def test_what_one_machine_has_compiled_all_others_are_served(team: Team) -> None:
    first, second = team.machine(), team.machine()
    assert first.compile().outcome == MISS
    uploaded(first)
    assert second.compile().outcome == HIT
    assert remote_counts(second)["hits"] > 0
    assert remote_counts(second)["received"] > 0
    assert second.compile().outcome == HIT


def test_a_result_that_came_is_served_by_the_near_store_alone(webbed: Team, web: Server) -> None:
    first, second = webbed.machine(), webbed.machine()
    first.compile()
    uploaded(first)
    assert second.compile().outcome == HIT
    web.kill()
    before = remote_counts(second)
    assert second.run([*LAUNCHER, *second.words("-DUNUSED_HERE=1")]).status == 0
    second.count_anew()
    assert second.compile().outcome == HIT
    assert remote_counts(second)["hits"] == before["hits"]


def test_headers_of_another_day_do_not_hide_what_the_remote_has(webbed: Team) -> None:
    """The near store has a record of the pass, for other contents of the source."""
    first, second = webbed.machine(), webbed.machine()
    second.write("k.hip", kernel("1"))
    assert second.compile().outcome == MISS
    uploaded(second)
    first.write("k.hip", kernel("2"))
    first.compile()
    uploaded(first)
    second.write("k.hip", kernel("2"))
    assert second.compile().outcome == HIT
    third = webbed.machine()
    for value in ("1", "2"):
        third.write("k.hip", kernel(value))
        assert third.compile().outcome == HIT, "the remote has both"


def test_of_a_compile_for_more_architectures_those_are_served_that_are_there(webbed: Team) -> None:
    first, second = webbed.machine(), webbed.machine()
    first.compile("--offload-arch=gfx906")
    uploaded(first)
    assert second.compile("--offload-arch=gfx906", "--offload-arch=gfx90a").outcome == PARTIAL


def test_namespaces_keep_what_they_hold_apart(webbed: Team, web: Server) -> None:
    first, other = webbed.machine(), webbed.machine(patient(f"{web.url}/release"))
    first.compile()
    uploaded(first)
    assert other.compile().outcome == MISS


def test_who_may_only_read_sends_nothing_and_who_may_only_write_gets_nothing(webbed: Team, web: Server) -> None:
    reader = webbed.machine(f"{webbed.url}&read-only")
    reader.compile()
    uploaded(reader)
    assert not list((web.place / "www").rglob("ac/*"))
    first, writer = webbed.machine(), webbed.machine(f"{webbed.url}&write-only")
    first.compile()
    uploaded(first)
    assert writer.compile().outcome == MISS
    second = webbed.machine(f"{webbed.url}&read-only")
    assert second.compile().outcome == HIT


def test_with_a_key_only_what_was_made_with_it_counts(webbed: Team, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"0123456789abcdef")
    file.chmod(0o600)
    key = {"HIPCACHE_KEY": str(file)}
    stranger, first, second, third = (webbed.machine() for _ in range(4))
    stranger.compile()
    uploaded(stranger)
    assert first.compile(env=key).outcome == MISS
    uploaded(first)
    assert second.compile(env=key).outcome == HIT
    assert third.compile().outcome == HIT, "that of the stranger"


def test_what_is_queued_is_sent_when_sync_has_ended(webbed: Team) -> None:
    first = webbed.machine()
    first.compile()
    synced = first.hipcache("sync")
    assert (synced.status, synced.out, synced.err) == (0, b"all results are sent\n", b"")
    assert not list((first.store / "v2/remote").glob("item-*"))
    second = webbed.machine()
    assert second.compile().outcome == HIT
    assert f"note: results came from remote '{webbed.url.partition('?')[0]}'" in explained(second.environ)


def test_sync_says_that_not_all_can_be_sent(webbed: Team, web: Server) -> None:
    web.kill()
    first = webbed.machine()
    assert first.run([*LAUNCHER, *first.words()]).status == 0
    synced = first.hipcache("sync")
    assert synced.status == 1
    assert b"hipcache: remote 'http://127.0.0.1" in synced.err


def test_sync_does_not_claim_what_the_settings_prevent(webbed: Team, web: Server) -> None:
    lab = webbed.machine(f"{web.url}?read-only")
    assert lab.compile().outcome == MISS
    synced = lab.hipcache("sync")
    assert (synced.status, synced.out) == (0, b"nothing is sent: the address of each remote says 'read-only'\n")
    lab.environ.update(HIPCACHE_REMOTE=web.url, HIPCACHE_READONLY="1")
    synced = lab.hipcache("sync")
    assert synced.status == 0
    assert b"none are added while the store is read-only (environment)" in synced.out


def test_the_doctor_looks_at_the_remote(team: Team) -> None:
    told = team.machine().hipcache("doctor", "--compiler", "/bin/false").out.decode()
    assert "answers within" in told
    assert "stores contents and results" in told


def test_the_doctor_compares_the_clocks(web: Server) -> None:
    for ahead, good in ((0.0, True), (-1000.0, False), (1000.0, False)):
        seen = list(examine(web.url, lambda ahead=ahead: time.time() + ahead))
        found = [(state, text) for state, text, _ in seen if "clock" in text]
        assert [state for state, _ in found] == [good], seen


def test_the_doctor_says_what_is_wrong_with_a_remote(webbed: Team, web: Server) -> None:
    web.kill()
    told = webbed.machine().hipcache("doctor", "--compiler", "/bin/false").out.decode()
    assert "fault  remote 'http://127.0.0.1" in told.lower()
