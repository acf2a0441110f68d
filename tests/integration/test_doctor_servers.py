"""The doctor on remotes and executors: in a user's words, without those of the libraries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from remote_lab import HAS_CLIENTS, SECONDS, Server, casd, free_port, nginx, running

if not HAS_CLIENTS:
    pytest.skip("the extra 'remote' is not installed (scripts/setup.sh --remote)", allow_module_level=True)

REFUSED = "it cannot be reached: connection refused"


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    rules = "location /denied { dav_methods off; } location /contents-only/ac { dav_methods off; }"
    with running(nginx(tmp_path_factory.mktemp("web"), rules)) as server:
        yield server


@pytest.fixture(scope="module")
def grpc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(casd(tmp_path_factory.mktemp("grpc"))) as server:
        yield server


def doctor(place: Path, **settings: str) -> list[str]:
    """The lines about servers, each with the advice below it; nothing else is printed."""
    environ = {"PATH": "/nowhere", "HOME": str(place), "HIPCACHE_DIR": str(place / "store")}
    done = subprocess.run(
        [sys.executable, "-m", "hipcache", "doctor", "--compiler", "/nowhere/clang++"],
        env={**environ, **{f"HIPCACHE_{name.upper()}": value for name, value in settings.items()}},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.stderr == ""
    lines = [*done.stdout.splitlines(), ""]
    return [
        " | ".join(part.strip() for part in ((line, lines[n + 1]) if lines[n + 1].startswith("    ") else (line,)))
        for n, line in enumerate(lines)
        if any(words in line for words in ("remote '", "executor '", "remotes and")) and not line.startswith("    ")
    ]


@pytest.mark.parametrize("scheme", ["grpc", "grpcs", "http", "https"])
def test_a_port_without_a_server_is_told_in_few_words(scheme: str, tmp_path: Path) -> None:
    url = f"{scheme}://127.0.0.1:{free_port()}"
    advice = "start the server, or correct the host and port of its address"
    assert doctor(tmp_path, remote=url) == [f"fault  remote '{url}': {REFUSED} | {advice}"]


def test_an_executor_without_a_server_is_told_so_too(tmp_path: Path) -> None:
    url = f"grpc://127.0.0.1:{free_port()}"
    assert doctor(tmp_path, executor=url)[0].startswith(f"fault  executor '{url}': {REFUSED} | start the server")


def test_a_socket_that_is_not_there_is_told(tmp_path: Path) -> None:
    (told,) = doctor(tmp_path, remote=f"unix:{tmp_path}/socket")
    assert told.endswith("there is no such socket | start the server, or correct the path")


def test_a_host_that_is_not_there_is_told(tmp_path: Path) -> None:
    for url in ("grpc://nowhere.invalid:9092", "http://nowhere.invalid/team"):
        (told,) = doctor(tmp_path, remote=url)
        assert "there is no such host | correct the host of its address" in told or "does not answer" in told


def test_another_protocol_than_the_servers_is_told_with_the_right_one(
    web: Server, grpc: Server, tmp_path: Path
) -> None:
    for url, words, hint in (
        (f"grpcs://127.0.0.1:{grpc.port}", "it does not speak TLS", "write grpc://"),
        (f"http://127.0.0.1:{grpc.port}/team", "it does not speak HTTP/1.1", "write grpc://"),
        (f"https://127.0.0.1:{web.port}/team", "it does not speak TLS", "write http://"),
        (f"grpc://127.0.0.1:{web.port}", "it does not speak gRPC, or only with TLS", "write grpcs://"),
        (f"grpc://127.0.0.1:{grpc.port}/lab", "it rejects the instance of the address", "correct the instance"),
    ):
        (told,) = doctor(tmp_path, remote=url)
        assert told.startswith(f"fault  remote '{url}': {words}")
        assert f" | {hint}" in told


def test_a_read_only_store_uses_no_remote_and_the_doctor_says_so(web: Server, tmp_path: Path) -> None:
    before = sorted((web.place / "www").rglob("*"))
    told, answers = doctor(tmp_path, remote=f"{web.url}/readonly", readonly="1")
    assert told.startswith("note   remotes and executors are not used: the store is read-only (environment)")
    assert "nothing is fetched, sent or run there" in told
    assert answers.startswith("ok")
    assert sorted((web.place / "www").rglob("*")) == before  # nor does the doctor send anything


def test_a_remote_that_is_only_read_is_told_as_one(web: Server, tmp_path: Path) -> None:
    (told,) = doctor(tmp_path, remote=f"{web.url}?read-only")
    assert told.startswith("ok ")
    assert told.endswith("nothing is sent to it ('read-only')")


def test_a_remote_that_denies_writing_is_a_fault_with_the_option_for_it(web: Server, tmp_path: Path) -> None:
    answers, told = doctor(tmp_path, remote=f"http://127.0.0.1:{web.port}/denied")
    assert answers.startswith("ok ")
    assert told.endswith("denies writing | if this user may only read, write ?read-only after the address")


def test_a_remote_that_takes_contents_and_no_results_is_a_fault(web: Server, tmp_path: Path) -> None:
    answers, told = doctor(tmp_path, remote=f"http://127.0.0.1:{web.port}/contents-only")
    assert answers.startswith("ok ")
    assert "stores contents, but denies writing to its action cache | if this user may only read" in told


def test_contents_and_results_are_tried(web: Server, grpc: Server, tmp_path: Path) -> None:
    for server in (web, grpc):
        for _ in range(2):
            told = doctor(tmp_path, remote=server.url)
            assert told[1].startswith("ok ")
            assert told[1].endswith("stores contents and results")


def test_a_server_that_tells_no_times_has_no_wrong_clock(tmp_path: Path) -> None:
    rule = 'add_header Last-Modified "";'
    with running(nginx(tmp_path / "server", rule)) as server:
        told = doctor(tmp_path, remote=server.url)
    assert "clock" not in str(told)
    assert told[1].endswith("stores contents and results")


def test_a_file_of_an_address_that_is_missing_or_empty_is_named(web: Server, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    for name, words in (("empty", "is empty"), ("missing", "No such file or directory")):
        (told,) = doctor(tmp_path, remote=f"{web.url}?token-file={tmp_path}/{name}")
        assert f"'{tmp_path}/{name}' (token-file)" in told
        assert told.endswith(f"{words} | correct the file, or its name in the address")
