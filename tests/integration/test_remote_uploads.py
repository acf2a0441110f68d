"""Uploads to several remotes: none waits for another one."""

from __future__ import annotations

import json
import random
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hip import Lab, settle, statistics
from hipcache import config
from hipcache.config import Config
from hipcache.remote import queue, sockets
from hipcache.remote.backend import blob_of
from hipcache.remote.helper import process
from hipcache.remote.helper.process import Uploads
from hipcache.remote.helper.remotes import open_remotes
from hipcache.remote.sockets import destination_of, place_of
from hipcache.store.local import LocalStore
from remote_lab import HIT, MISS, SECONDS, Server, Team, free_port, uploaded_from
from remote_lab import sockets as sockets_of
from remote_team import patient, web

__all__ = ["web"]


@contextmanager
def silent() -> Iterator[str]:
    """The address of a server that takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/team?timeout=30"


def filled(root: Path, count: int) -> LocalStore:
    """A store with so many results, all of them queued."""
    store = LocalStore(root, max_bytes=1 << 30)
    for number in range(count):
        put(store, number)
    return store


def put(store: LocalStore, number: int, to: str = "") -> None:
    key, digest = f"{number:064x}", store.put_blob(b"content %d" % number)
    store.put_action(key, json.dumps({"outputs": [digest], "passing": [], "text": "", "seconds": 1.0}).encode())
    assert queue.add(store.confined, [key], [], to)


def begun(store: LocalStore, *urls: str) -> Uploads:
    settings = Config(dir=store.root, remote=urls)
    uploads, ready = Uploads(settings, store, open_remotes(settings, store)), threading.Event()
    ready.set()
    uploads.run(ready, lambda: None)
    return uploads


def await_records(server: Server, count: int) -> None:
    end = time.monotonic() + SECONDS
    while len(list((server.place / "www/team/ac").glob("*"))) < count:
        assert time.monotonic() < end, "they are not uploaded"
        time.sleep(0.02)


def test_a_silent_remote_holds_up_no_other_one(tmp_path: Path, web: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_BATCH", 2)
    store = filled(tmp_path / "store", 3)
    with silent() as url:
        uploads = begun(store, url, patient(web.url))
        await_records(web, 3)
        put(store, 3)
        uploads.ask()
        await_records(web, 4)
        assert len(queue.names(store.confined)) == 4, "the silent one has none of them"
        uploads.ended = True


def test_what_all_remotes_have_leaves_the_queue(tmp_path: Path, web: Server) -> None:
    store = filled(tmp_path / "store", 3)
    uploads = begun(store, patient(web.url), patient(f"{web.url}/other"))
    uploaded_from(tmp_path / "store")
    for place in ("team/ac", "team/other/ac"):
        assert len(list((web.place / "www" / place).iterdir())) == 3
    uploads.end()


def test_who_waits_for_all_is_told_of_the_one_that_fails_when_the_others_have_it(tmp_path: Path, web: Server) -> None:
    store = filled(tmp_path / "store", 3)
    uploads = begun(store, f"http://127.0.0.1:{free_port()}/team", patient(web.url))
    said = []
    uploads.sync(said.append)
    await_records(web, 3)
    assert said[-1]["left"] == 3
    assert "remote 'http://127.0.0.1" in said[-1]["told"][0]
    assert uploads.are_stuck_or_done()
    uploads.ended = True


def test_a_queue_that_fills_up_waits_for_no_remote_that_is_at_fault(
    tmp_path: Path, web: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path / "store", 3)
    monkeypatch.setattr(queue, "MOST", 4)
    uploads = begun(store, f"http://127.0.0.1:{free_port()}/team", patient(web.url))
    uploaded_from(tmp_path / "store")
    uploads.ended = True


def failing_of_itself(store: LocalStore, web: Server, number: int) -> None:
    """From now on the server answers to the content of that number with an error."""
    hash_, _ = blob_of(b"content %d" % number)
    config = web.place / "nginx.conf"
    rule = "create_full_put_path on;"
    assert rule in config.read_text()
    config.write_text(config.read_text().replace(rule, f"{rule} location ~ {hash_} {{ return 500; }}"))
    web.kill()
    web.start()


def test_an_item_that_fails_by_itself_stops_no_other_one_and_is_left_out_in_the_end(
    tmp_path: Path, web: Server
) -> None:
    store = filled(tmp_path / "store", 5)
    failing_of_itself(store, web, 1)
    uploads = begun(store, patient(web.url))
    await_records(web, 4)
    said: list[dict[str, object]] = []
    uploads.sync(said.append)
    assert said[-1]["left"] == 1
    assert "answers with status 500" in str(said[-1]["told"])
    for number in range(5, 5 + process._TRIES):
        put(store, number)
        uploads.sync(said.append)
        await_records(web, number)
    assert (said[-1]["left"], said[-1]["told"]) == (0, None)
    uploads.end()


def errors_of(store: LocalStore) -> int:
    remote = statistics({"HIPCACHE_DIR": str(store.root), "HOME": str(store.root)})["remote"]
    assert isinstance(remote, dict)
    return int(remote["errors"])


def test_an_outage_leaves_no_item_out_and_is_counted_once(tmp_path: Path, web: Server) -> None:
    store = filled(tmp_path / "store", 5)
    web.kill()
    uploads = begun(store, patient(web.url))
    said: list[dict[str, object]] = []
    for _ in range(2 * process._TRIES):
        uploads.sync(said.append)
        assert said[-1]["left"] == 5
    assert errors_of(store) == 1
    web.start()
    uploads.sync(said.append)
    assert said[-1]["left"] == 0
    await_records(web, 5)
    assert errors_of(store) == 1
    web.kill()
    put(store, 5)
    uploads.sync(said.append)
    assert errors_of(store) == 2, "of another outage"
    uploads.end()


def test_a_content_that_is_too_large_for_the_server_stops_no_other_one(tmp_path: Path, web: Server) -> None:
    config = web.place / "nginx.conf"
    config.write_text(re.sub(r"client_max_body_size [^;]*;", "client_max_body_size 10k;", config.read_text()))
    assert "client_max_body_size 10k;" in config.read_text()
    web.kill()
    web.start()
    store = filled(tmp_path / "store", 2)
    digest = store.put_blob(random.Random(1).randbytes(20_000))
    store.put_action("a" * 64, json.dumps({"outputs": [digest], "passing": [], "text": "", "seconds": 1.0}).encode())
    assert queue.add(store.confined, ["a" * 64], [])
    put(store, 3)
    uploads = begun(store, patient(web.url))
    said: list[dict[str, object]] = []
    uploads.sync(said.append)
    assert (said[-1]["left"], said[-1]["told"]) == (0, None)
    await_records(web, 3)
    uploads.end()
    assert len([*(web.place / "www/team/ac").iterdir()]) == 3
    assert errors_of(store) == 1


def hit_by_engine(lab: Lab, env: Mapping[str, str]) -> None:
    """A compile that the native program would serve."""
    engine = "import os, sys; from hipcache.app.launch import launch; sys.exit(launch(sys.argv[1:], os.environ))"
    assert lab.run([sys.executable, "-c", engine, *lab.words()], env=env).status == 0
    assert lab.counted().outcome == HIT


@pytest.fixture
def compiled_once(tmp_path: Path) -> Lab:
    """Without a remote."""
    lab = Team(tmp_path, "").machine()
    settle()
    lab.compile()
    return lab


def test_the_helper_is_told_at_once_of_a_hit_that_is_remembered_anew(compiled_once: Lab) -> None:
    """A container may end right after its build, before the helper looks into the queue by itself."""
    env = {**compiled_once.environ, "HIPCACHE_REMOTE": f"http://127.0.0.1:{free_port()}"}
    (Path(env["XDG_RUNTIME_DIR"]) / "hipcache").mkdir(mode=0o700, exist_ok=True)
    with sockets.bound(place_of(config.load(env), env)) as helper:
        helper.settimeout(SECONDS)
        hit_by_engine(compiled_once, env)
        with helper.accept()[0] as said:
            assert json.loads(said.recv(100)) == {"op": "upload"}


def test_a_hit_after_which_the_machine_ends_is_uploaded_by_the_next_helper(compiled_once: Lab, web: Server) -> None:
    env = {"HIPCACHE_REMOTE": patient(web.url)}
    hit_by_engine(compiled_once, env)
    assert not sockets_of(compiled_once), "nobody was there to upload it"
    assert compiled_once.run([sys.executable, "-m", "hipcache", "sync"], env=env).status == 0
    assert list((web.place / "www/team/ac").iterdir())


def test_a_helper_of_other_settings_leaves_what_is_not_its_own(tmp_path: Path, web: Server) -> None:
    """One of another remote would send it there; one that may only read would remove it."""
    store = filled(tmp_path / "store", 0)
    own = Config(dir=store.root, remote=(patient(web.url),))
    put(store, 1, destination_of(own))
    before = queue.names(store.confined)
    elsewhere = web.url.replace("/team", "/another")
    others = [begun(store, patient(elsewhere)), begun(store, f"{patient(web.url)}&read-only")]
    for uploads in others:
        said: list[object] = []
        uploads.sync(said.append)
        assert said == [{"left": 0, "told": None}]
        uploads.ended = True
    assert queue.names(store.confined) == before
    assert not (web.place / "www/another").exists()
    uploads = begun(store, *own.remote)
    await_records(web, 1)
    uploads.ended = True


def test_a_new_token_is_no_new_destination_but_another_server_or_namespace_is(tmp_path: Path) -> None:
    def to(*remote: str, **more: str) -> str:
        return destination_of(Config(dir=tmp_path, remote=remote, **more))  # type: ignore[arg-type]

    assert to("s3://team/main") == to("s3://team/main?token-file=/token&timeout=3")
    assert to("grpc://a:1", "grpc://b:1") == to("grpc://b:1", "grpc://a:1")
    assert to("grpc://a:1", "grpc://b:1?read-only") == to("grpc://a:1")
    others = [
        *(to("s3://team/main"), to("s3://team/main?endpoint=https://here"), to("s3://team/main?read-only")),
        *(to("s3://team/pulls"), to("s3://team/main", namespace="nightly")),
    ]
    assert len(set(others)) == len(others)


def test_what_nobody_fetches_is_removed_after_some_days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(tmp_path, 0)
    put(store, 1, "a" * 16)
    put(store, 2, "b" * 16)
    queue.drop_old(store.confined, "a" * 16)
    assert len(queue.names(store.confined)) == 2
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now + 8 * 86400 * 10**9)
    queue.drop_old(store.confined, "a" * 16)
    assert [item.keys for item in queue.read(store.confined, 10)[0]] == [(f"{1:064x}",)]


def test_a_remote_that_was_only_read_gets_all_that_is_made_when_it_may_be_written(tmp_path: Path, web: Server) -> None:
    """Though the helper that may only read still lives."""
    team = Team(tmp_path, f"{web.url}?read-only")
    first = team.machine()
    assert first.compile("-O2").outcome == MISS
    first.environ["HIPCACHE_REMOTE"] = web.url
    assert first.compile("-O1").outcome == MISS
    uploaded_from(first.store)
    assert team.machine().compile("-O1").outcome == HIT
    team.end()
