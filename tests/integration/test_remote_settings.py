"""Settings of remotes: tokens, files, addresses, and none at all."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hip import LAUNCHER, only_19
from hipcache.config import Config
from hipcache.remote.client import Client
from remote_lab import HIT, MISS, free_port, nginx, running, sockets, uploaded
from remote_team import _team, helpers, patient
from test_direct import Direct, direct

__all__ = ["direct"]


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
    assert told == [
        ("remote 'grpc://cache:1/main' needs protobuf, grpcio", f"{sys.executable} -m pip install protobuf grpcio")
    ]
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
        assert not (lab.store / "v2/remote").exists()


def test_a_local_hit_asks_no_remote_and_loads_nothing_of_it_but_how_it_would_ask(tmp_path: Path) -> None:
    """The engine serves it: the native launcher has none of this in any case."""
    url = f"http://127.0.0.1:{free_port()}"
    for team in _team(tmp_path, ""):
        lab = team.machine()
        # A compile that looks at the machine is not sent as a whole.
        lab.compile("-march=native")
        env = {"HIPCACHE_REMOTE": url, "HIPCACHE_LOG": str(lab.root / "log"), "PYTHONVERBOSE": "1"}
        env["HIPCACHE_EXECUTOR"] = "grpc://127.0.0.1:1?prefer"
        script = (
            "import os, sys; from hipcache.app.launch import launch; status = launch(sys.argv[1:], os.environ);"
            "print(*sorted(name for name in sys.modules if 'remote' in name or name in ('grpc', 'obstore', 'socket')));"
            "sys.exit(status)"
        )
        import sys

        env.pop("PYTHONVERBOSE")
        ended = lab.run([sys.executable, "-c", script, *lab.words("-march=native")], env=env)
        assert (ended.status, ended.out.split(), ended.err) == (
            0,
            [b"hipcache.remote", b"hipcache.remote.results"],
            b"",
        )
        assert lab.counted().outcome == HIT
