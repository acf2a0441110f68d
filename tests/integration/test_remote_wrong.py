"""Remotes that are wrong: damaged, away, silent, or lying; none is worse than a miss."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hip import KERNEL, LAUNCHER, kernel
from hipcache.config import Config
from hipcache.remote import queue
from hipcache.remote.helper.process import IDLE, Helper
from hipcache.remote.helper.remotes import open_remotes
from hipcache.store.local import LocalStore
from remote_lab import HIT, MISS, SECONDS, Server, Team, free_port, nginx, remote_counts, running, sockets, uploaded
from remote_team import _team, end_helper, patient, web, webbed

__all__ = ["web", "webbed"]


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :] if content else b"x"


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "flipped": flip,
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "grown": lambda content: content + b"more",
    "zeroed": lambda content: bytes(len(content)),
    "noise": lambda content: os.urandom(len(content)),
}


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("which", ["ac", "cas"])
def test_what_is_damaged_is_a_miss_that_is_counted(webbed: Team, web: Server, which: str, how: str) -> None:
    first, second = webbed.machine(), webbed.machine()
    first.compile()
    uploaded(first)
    for file in (web.place / "www/team" / which).iterdir():
        file.write_bytes(DAMAGE[how](file.read_bytes()))
    assert second.compile().outcome != HIT
    assert remote_counts(second)["errors"] > 0
    assert second.compile().outcome == HIT


def test_records_that_were_exchanged_are_misses(webbed: Team, web: Server) -> None:
    first, second = webbed.machine(), webbed.machine()
    first.compile()
    uploaded(first)
    files = sorted((web.place / "www/team/ac").iterdir())
    contents = [file.read_bytes() for file in files]
    for file, content in zip(files, contents[1:] + contents[:1], strict=True):
        file.write_bytes(content)
    assert second.compile().outcome == MISS
    assert remote_counts(second)["errors"] > 0


def test_contents_that_are_gone_are_misses(webbed: Team, web: Server) -> None:
    first, second = webbed.machine(), webbed.machine()
    first.compile()
    uploaded(first)
    shutil.rmtree(web.place / "www/team/cas")
    assert second.compile().outcome == MISS
    uploaded(second)
    assert webbed.machine().compile().outcome == HIT, "what is gone was sent anew"


def test_a_remote_that_is_away_is_told_once_and_costs_little(webbed: Team, web: Server) -> None:
    web.kill()
    lab = webbed.machine()
    first = lab.run([*LAUNCHER, *lab.words()])
    assert first.status == 0
    assert b"results are not shared: remote 'http://127.0.0.1" in first.err
    lab.write("k.hip", kernel("5"))
    second = lab.run([*LAUNCHER, *lab.words()])
    assert (second.status, second.err) == (0, b"")
    assert lab.stats()["remote"]["errors"] > 0  # type: ignore[index]


def test_a_helper_whose_remote_does_not_come_back_ends(tmp_path: Path) -> None:
    """What it could not send stays queued, for the helper of the next compile."""
    team = Team(tmp_path, f"http://127.0.0.1:{free_port()}")
    lab = team.machine()
    assert lab.run([*LAUNCHER, *lab.words()]).status == 0
    for place in sockets(lab):
        end_helper(place)
    store = LocalStore(lab.store, max_bytes=0)
    helper = Helper(Config(dir=lab.store, remote=(team.url,)), store)
    helper.remotes += open_remotes(helper.config, store)
    helper.used -= 2 * IDLE
    assert queue.names(store.confined)
    assert not helper.is_idle()
    ready = threading.Event()
    ready.set()
    helper.uploads.run(ready, lambda: None)
    end = time.monotonic() + SECONDS
    while not helper.is_idle():
        assert time.monotonic() < end, "it does not end"
        time.sleep(0.02)
    assert queue.names(store.confined)


def test_what_could_not_be_sent_is_sent_when_the_remote_is_back(webbed: Team, web: Server) -> None:
    web.kill()
    first = webbed.machine()
    lab_words = first.words()
    assert first.run([*LAUNCHER, *lab_words]).status == 0
    assert list((first.store / "v2/remote").glob("item-*"))
    for place in sockets(first):
        end_helper(place)
    web.start()
    first.write("other.hip", KERNEL)
    assert first.run([*LAUNCHER, *first.words(source="other.hip", output="other.o")]).status == 0
    uploaded(first)
    assert webbed.machine().compile().outcome == HIT


@pytest.mark.parametrize("rules", ["return 403;", "return 500;", "return 200 'garbage';"])
def test_a_server_that_denies_or_fails_or_lies_is_no_more_than_a_miss(tmp_path: Path, rules: str) -> None:
    with running(nginx(tmp_path / "server", f"location / {{ {rules} }}")) as server:
        for team in _team(tmp_path, patient(server.url)):
            lab = team.machine()
            ended = lab.run([*LAUNCHER, *lab.words()])
            assert ended.status == 0
            assert (lab.root / "out.o").exists()
            assert remote_counts(lab)["errors"] > 0


def test_a_server_that_never_answers_costs_a_moment_once(tmp_path: Path) -> None:
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(64)
        for team in _team(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}"):
            lab = team.machine()
            ended = lab.run([*LAUNCHER, *lab.words()])
            assert ended.status == 0
            assert b"results are not shared" in ended.err
            lab.write("k.hip", kernel("5"))
            assert lab.run([*LAUNCHER, *lab.words()]).err == b""


def test_a_helper_that_is_killed_is_started_anew(webbed: Team) -> None:
    first, second = webbed.machine(), webbed.machine()
    first.compile()
    uploaded(first)
    (place,) = sockets(first)
    end_helper(place)
    first.write("k.hip", kernel("7"))
    assert first.compile().outcome == MISS
    uploaded(first)
    second.write("k.hip", kernel("7"))
    assert second.compile().outcome == HIT
