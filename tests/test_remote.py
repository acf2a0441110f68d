"""A team's cache: what one machine has compiled is served to all others, and nothing that a remote does is worse than
a miss."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hip import KERNEL, LAUNCHER, PARTIAL, explained, kernel, only_19
from hipcache.config import Config
from hipcache.helper.process import IDLE, Helper
from hipcache.helper.remotes import examine, open_remotes
from hipcache.remote import queue
from hipcache.remote.client import Client
from hipcache.store.local import LocalStore
from remote_lab import (
    HIT,
    MISS,
    SECONDS,
    SERVERS,
    Server,
    Team,
    free_port,
    nginx,
    remote_counts,
    running,
    sockets,
    uploaded,
)
from test_direct import Direct, direct

__all__ = ["direct"]


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
    assert not list((first.store / "v1/remote").glob("item-*"))
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


# Remotes that are wrong


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
    assert list((first.store / "v1/remote").glob("item-*"))
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


def end_helper(place: Path) -> None:
    """SIGKILL; the socket stays behind."""
    for process in helpers(place):
        os.kill(int(process.name), signal.SIGKILL)
    end = time.monotonic() + 20
    while helpers(place):
        assert time.monotonic() < end, "it does not end"
        time.sleep(0.01)


def helpers(place: Path) -> list[Path]:
    """Directories in /proc of those that listen there."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"--storage-helper" in words and words[-2].startswith(os.fsencode(place.parent)):
                found.append(process)
    return found


# Settings


def test_a_token_is_sent_and_shown_to_nobody(tmp_path: Path) -> None:
    rules = 'if ($http_authorization != "Bearer not-to-be-seen") { return 403; }'
    token = tmp_path / "token"
    token.write_text("not-to-be-seen\n")
    with running(nginx(tmp_path / "server", rules)) as server:
        for team in _team(tmp_path, f"{patient(server.url)}&token-file={token}"):
            first, second = team.machine(), team.machine()
            first.compile()
            uploaded(first)
            assert second.compile().outcome == HIT
            (place,) = sockets(second)
            (process,) = helpers(place)
            assert b"not-to-be-seen" not in (process / "cmdline").read_bytes()
            assert b"not-to-be-seen" not in second.hipcache("config").out + second.hipcache("stats", "--json").out
            stranger = team.machine(patient(server.url))
            ended = stranger.run([*LAUNCHER, *stranger.words()])
            assert ended.status == 0
            assert b"it denies access" in ended.err


def test_without_the_extra_a_remote_is_one_line_and_nothing_is_queued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    told: list[tuple[str, str]] = []
    config = Config(dir=tmp_path, remote=("grpc://cache:1/main?read-only",))
    client = Client(config, {}, lambda fault, hint: told.append((fault, hint)))
    assert client.fetch(["ab" * 32]) is None
    assert client.fetch(["cd" * 32]) is None
    client.queue(["ab" * 32], [])
    assert told == [("remote 'grpc://cache:1/main' needs protobuf, grpcio", "pip install protobuf grpcio")]
    assert not list(tmp_path.iterdir())


@only_19
def test_a_config_file_with_a_remote_leaves_direct_hits_to_the_native_launcher(direct: Direct) -> None:
    lab = direct.lab
    file = lab.write("settings.yaml", f"remote: http://127.0.0.1:1/team?read-only\ndir: {lab.store}\n")
    for env in (
        {"HIPCACHE_CONFIG": str(file), "HIPCACHE_DIR": ""},
        {"HIPCACHE_REMOTE": "http://127.0.0.1:1/team"},
    ):
        lab.run([*LAUNCHER, *lab.words()], env=env)
        lab.run([*LAUNCHER, *lab.words()], env=env)
        lab.count_anew()
        assert direct.ask(env=env)
    assert direct.ask(), "that the remote is not set any more is no other compile"


def test_a_remote_that_is_no_address_is_told_and_the_build_goes_on(tmp_path: Path) -> None:
    for team in _team(tmp_path, "htp://somewhere"):
        lab = team.machine()
        ended = lab.run([*LAUNCHER, *lab.words()])
        assert ended.status == 0
        assert b"remote 'htp://somewhere' begins with none of grpc" in ended.err


def test_without_a_remote_nothing_of_it_is_loaded_and_no_helper_runs(tmp_path: Path) -> None:
    for team in _team(tmp_path, ""):
        lab = team.machine()
        assert lab.compile().outcome == MISS
        assert not sockets(lab)
        assert not (lab.store / "v1/remote").exists()


def test_a_local_hit_asks_no_remote_and_loads_nothing_of_it(tmp_path: Path) -> None:
    """The engine serves it: the native launcher has none of this in any case."""
    url = f"http://127.0.0.1:{free_port()}"
    for team in _team(tmp_path, ""):
        lab = team.machine()
        # A compile that looks at the machine is not sent as a whole.
        lab.compile("-march=native")
        env = {"HIPCACHE_REMOTE": url, "HIPCACHE_LOG": str(lab.root / "log"), "PYTHONVERBOSE": "1"}
        env["HIPCACHE_EXECUTOR"] = "grpc://127.0.0.1:1?prefer"
        script = (
            "import os, sys; from hipcache.launcher.launch import launch; status = launch(sys.argv[1:], os.environ);"
            "print(*sorted(name for name in sys.modules if 'remote' in name or name in ('grpc', 'obstore', 'socket')));"
            "sys.exit(status)"
        )
        import sys

        env.pop("PYTHONVERBOSE")
        ended = lab.run([sys.executable, "-c", script, *lab.words("-march=native")], env=env)
        assert (ended.status, ended.out.strip(), ended.err) == (0, b"", b"")
        assert lab.counted().outcome == HIT
