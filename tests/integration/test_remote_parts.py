"""The parts of a remote cache by themselves: addresses, the breaker, what a record is to a remote."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import hipcache
import pytest
from hipcache.base.errors import ConfigError
from hipcache.config import Config
from hipcache.remote import address, client, sockets
from hipcache.remote.address import parse
from hipcache.remote.breaker import BUDGET, LATENCY, MEMORY, PAUSE, Breaker
from hipcache.remote.client import Client
from hipcache.remote.helper import commands
from hipcache.remote.helper.process import Helper
from hipcache.remote.helper.remotes import Remote
from hipcache.store.local import LocalStore

KEY, OTHER = "ab" * 32, "cd" * 32


# Addresses


def test_an_address_has_a_place_a_namespace_and_a_mode() -> None:
    found = parse("grpcs://cache.example.com:9092/rocm/main?read-only&token-file=/run/token&timeout=0.5")
    assert (found.scheme, found.host, found.path) == ("grpcs", "cache.example.com:9092", "rocm/main")
    assert (found.reads, found.writes, found.timeout) == (True, False, 0.5)
    assert found.files == {"token-file": "/run/token"}
    assert found.name == "grpcs://cache.example.com:9092/rocm/main"
    assert parse("s3://bucket?write-only").reads is False
    assert parse("unix:/run/casd@1.sock").host == "/run/casd@1.sock"
    assert parse("http://cache/main?header-file=/home/me@work/header").name == "http://cache/main"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cache.example.com", "begins with none of"),
        ("ftp://cache", "begins with none of"),
        ("grpc://cache", "has no port"),
        ("http://", "is not an address"),
        ("http://cache:no", "is not an address"),
        ("http://user:secret@cache", "contains a user or a password"),
        ("http://user:1/secret@cache", "remote 'http://cache' contains a user or a password"),
        ("http://user:1?secret@cache", "remote 'http://cache' contains a user or a password"),
        ("http://user:1#secret@cache", "remote 'http://cache' contains a user or a password"),
        ("http://user:p/secret@cache", "remote 'http://cache' is not an address\n"),
        ("http://user:secret\u2100@cache", "remote 'http://cache' is not an address\n"),
        ("user:secret@cache:80", "remote 'cache:80' begins with none of"),
        ("s3://bucket?endpoint=http://user:secret@cache", "remote 's3://bucket' contains a user or a password"),
        ("http://cache?read-only&write-only", "neither read nor written"),
        ("http://cache?readonly", "unknown option 'readonly'\n  did you mean 'read-only'?"),
        ("http://cache?read-only=0", "'read-only' takes no value\n  write 'read-only' alone"),
        ("grpc://cache:1?jobs=4", "unknown option 'jobs'\n  only executors have it"),
        ("grpcs://cache?key-file=/key.pem", "only one of cert-file and key-file"),
        ("http://cache?colour=red", "unknown option 'colour'\n  known are read-only,"),
        ("grcp://cache:9092", "begins with none of .*\n  did you mean 'grpc://'?"),
        ("grpc:/cache:9092", "has no '//' after 'grpc:'"),
        ("http://cache?token-file=token", "needs an absolute path"),
        ("http://cache?timeout=never", "is not a timeout"),
        ("http://cache?timeout=0", "is not a timeout"),
        ("http://cache?timeout=1.2.3", "is not a timeout"),
        ("https://cache?ca-file=/ca.pem", "only grpcs:// has the option 'ca-file'"),
        ("s3://bucket?key-file=/secret.pem", "only grpcs:// has the option 'key-file'"),
    ],
)
def test_an_address_that_is_none_is_told_without_what_may_be_secret(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as told:
        parse(text)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("place", ["http://169.254.169.254/latest/api/token", "http://metadata.google.internal/x"])
def test_a_cloud_without_credentials_is_told_so(place: str) -> None:
    pytest.importorskip("obstore")
    from hipcache.remote.objects import _as_remote_error

    told = _as_remote_error(OSError(f"Generic S3 error: Error performing PUT {place} in 3 s - timed out"))
    assert "there are no credentials" in str(told)
    assert place not in str(told)


# The breaker


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_remote_that_is_good_stays_asked() -> None:
    clock = Clock()
    breaker = Breaker(clock=clock)
    for _ in range(100):
        began = clock.now
        clock.now += LATENCY / 2
        breaker.spent(began, 0)
    began = clock.now
    clock.now += 10
    breaker.spent(began, 100 << 20)  # much has come
    assert not breaker.why


def test_a_remote_that_is_slow_is_left_when_the_budget_is_spent_and_time_is_counted_once() -> None:
    clock = Clock()
    breaker = Breaker(clock=clock)
    began = clock.now
    clock.now += LATENCY + BUDGET * 0.9
    for _ in range(8):  # at once
        breaker.spent(began, 0)
    assert not breaker.why
    began = clock.now
    clock.now += LATENCY + BUDGET * 0.2
    breaker.spent(began, 0)
    assert breaker.why


def test_a_fetch_is_given_up_that_goes_on_and_brings_little() -> None:
    clock = Clock()
    breaker = Breaker(clock=clock)
    began = clock.now
    clock.now += 2.0
    assert not breaker.is_too_slow(began, 0, ahead=False)
    clock.now += 0.1
    assert breaker.is_too_slow(began, 100 << 10, ahead=False)
    assert not breaker.is_too_slow(began, 1 << 20, ahead=False)
    assert breaker.is_too_slow(began, 1 << 10, ahead=True)
    assert not breaker.is_too_slow(began, 100 << 10, ahead=True)


def test_what_was_lost_long_ago_is_forgotten() -> None:
    clock = Clock()
    breaker = Breaker(clock=clock)
    for _ in range(5):
        began = clock.now
        clock.now += LATENCY + BUDGET * 0.5
        breaker.spent(began, 0)
        clock.now += MEMORY + 1
    assert not breaker.why


def test_one_that_is_open_is_probed_after_a_pause_each_time_a_longer_one() -> None:
    clock = Clock()
    breaker = Breaker(clock=clock)
    breaker.open("it is away")
    assert not breaker.is_to_be_probed()
    clock.now += PAUSE
    assert breaker.is_to_be_probed()
    assert not breaker.is_to_be_probed()
    clock.now += PAUSE
    assert not breaker.is_to_be_probed()
    breaker.close()
    assert not breaker.why


def test_the_first_pause_is_short_again_after_a_good_time() -> None:
    clock = Clock()
    breaker = Breaker(clock=clock)

    def fault() -> bool:
        breaker.open("it is away")
        clock.now += PAUSE
        probed = breaker.is_to_be_probed()
        breaker.close()
        return probed

    assert fault()
    clock.now += MEMORY / 2
    assert not fault()
    for _ in range(3):
        clock.now += MEMORY + 1
        assert fault()


# What they need here


def test_a_list_of_remotes_needs_the_packages_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("grpc", "obstore") else name)
    assert address.missing_packages(["http://cache/a"]) == ["obstore"]
    assert address.missing_packages(["grpc://cache:1"]) == ["grpcio"]
    assert address.missing_packages(["http://cache/a", "grpc://cache:1", "s3://bucket"]) == ["obstore", "grpcio"]


def test_a_credential_that_was_replaced_needs_another_helper(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    config = Config(dir=tmp_path, remote=(f"http://cache/a?token-file={token}",))
    asking = Client(config, {"XDG_RUNTIME_DIR": str(tmp_path)}, lambda fault, hint: None)
    first = asking.place()
    assert asking.place() == first
    token.write_text("another")
    assert asking.place() != first


def test_a_credential_of_an_executor_with_options_that_was_replaced_needs_another_helper(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    addresses = ("grpc://other:1?jobs=2", f"grpc://cache:1?jobs=8&token-file={token}")
    asking = Client(
        Config(dir=tmp_path, executor=addresses), {"XDG_RUNTIME_DIR": str(tmp_path)}, lambda fault, hint: None
    )
    first = asking.place()
    token.write_text("another")
    assert asking.place() != first


def test_each_variable_that_names_a_proxy_or_none_needs_another_helper(tmp_path: Path) -> None:
    def place(**more: str) -> str:
        return Client(
            Config(dir=tmp_path), {"XDG_RUNTIME_DIR": str(tmp_path), **more}, lambda fault, hint: None
        ).place()

    assert place() not in (place(no_grpc_proxy="host"), place(grpc_proxy="http://proxy"), place(no_proxy="host"))


def test_words_that_no_process_can_have_are_no_compile_to_fetch() -> None:
    words = ["clang++", "-x", "hip", "-c", "a.hip"]
    odd: list[dict[str, object]] = [
        {"directory": "/", "file": "a", "arguments": [*words, more]}
        for more in ("", "-DT=\ud83d", "-DT=\0", "-DT=\udc80")
    ]
    assert [one.argv[-1] for one in commands.chosen(odd)] == ["", "-DT=\udc80"]


def test_a_helper_looks_for_packages_where_the_engine_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spack and Nix write the places of packages into the script of the engine, which is not the helper's."""
    (tmp_path / "hipcache").mkdir()
    (tmp_path / "hipcache/__init__.py").touch()
    (tmp_path / "hipcache/__main__.py").write_text("import sys\ndef main(): print(sys.path)\n")
    monkeypatch.setattr(hipcache, "__file__", str(tmp_path / "hipcache/__init__.py"))
    monkeypatch.setattr(sys, "path", ["/places/yaml", "", *sys.path])
    started: list[list[str]] = []
    monkeypatch.setattr(client, "start_detached", lambda argv, **_: started.append(argv))
    starting = Client(Config(dir=tmp_path), {"XDG_RUNTIME_DIR": str(tmp_path)}, lambda fault, hint: None)
    starting._start(starting.place())
    words = [sys._base_executable, *started[0][1:]]  # type: ignore[attr-defined]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    found = ast.literal_eval(done.stdout)
    assert {str(tmp_path), "/places/yaml"} < set(found)
    assert "" not in found


# One build


def test_a_build_asks_no_more_once_bad_remotes_have_cost_it_a_second_however_long_it_takes(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, max_bytes=1 << 20)
    helper = Helper(Config(dir=tmp_path), store)
    clock = Clock()
    remote = Remote(parse("http://cache/a"), store, list, Breaker(clock=clock))  # type: ignore[arg-type]
    helper.remotes.append(remote)
    account = helper.fetches.account("one build")
    account._clock = clock
    for _ in range(2):
        began = clock.now
        clock.now += 0.9
        account.spent(began, 0)
        clock.now += 2 * MEMORY
    assert account.why
    assert helper.fetches.fetch([KEY], lambda: None, account, ahead=False)["hits"] == 0
    assert helper.fetches.account("one build") is account
    assert not helper.fetches.account("another build").why


# The queue


@pytest.mark.parametrize("again", [False, True], ids=["taken away", "replaced"])
def test_a_helper_whose_socket_is_another_one_ends_at_once(tmp_path: Path, again: bool) -> None:
    place = str(tmp_path / "remote-1")
    store = LocalStore(tmp_path / "store", max_bytes=0)
    helper = Helper(Config(dir=store.root), store)
    with sockets.bound(place) as listener:
        thread = threading.Thread(target=helper.run, args=({place: listener}, place), daemon=True)
        thread.start()
        thread.join(0.1)
        assert thread.is_alive()
        time.sleep(0.01)
        if again:
            sockets.bound(place).close()
        else:
            os.unlink(place)
        thread.join(60)
        assert not thread.is_alive()
    assert os.path.exists(place) is again, "what another one has made stays"
