"""Servers that do what no server should: what comes from them is a miss, and costs little."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from remote_lab import HAS_CLIENTS

if not HAS_CLIENTS:
    pytest.skip("the extra 'remote' is not installed (scripts/setup.sh --remote)", allow_module_level=True)

from hipcache.base.keys import digest_bytes
from hipcache.config import Config
from hipcache.remote import backend, envelope
from hipcache.remote.address import parse
from hipcache.remote.backend import Backend, Blob, Progress, RemoteError, blob_of, connect
from hipcache.remote.breaker import Breaker
from hipcache.remote.envelope import Damaged, Envelope, action_of
from hipcache.remote.helper.fetches import Fetches
from hipcache.remote.helper.remotes import Remote
from hipcache.remote.helper.transfer import Transfer
from hipcache.store.local import LocalStore
from hipcache.store.seal import Seal

KEY, SEAL = "ab" * 32, Seal()
WANTED = blob_of(b"what was stored")


def no_progress(size: int) -> None:
    pass


# Servers of HTTP

# The status, the headers and the pieces of the body, for a path.
Answered = tuple[int, dict[str, str], Iterator[bytes]]
Answer = Callable[[str], Answered]


class Answers(BaseHTTPRequestHandler):
    """`seen`: the headers of each request."""

    protocol_version = "HTTP/1.1"
    answer: Answer
    seen: list[dict[str, str]]

    def do_GET(self) -> None:
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        status, headers, pieces = type(self).answer(self.path)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError):
            for piece in pieces:
                self.wfile.write(piece)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def answering(
    answer: Answer,
) -> Iterator[tuple[int, list[dict[str, str]]]]:
    """The port, and the headers of all requests."""
    seen: list[dict[str, str]] = []
    kind = type("Answers", (Answers,), {"answer": staticmethod(answer), "seen": seen})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port, seen
        server.shutdown()


def endless(path: str) -> Answered:
    def pieces() -> Iterator[bytes]:
        while True:
            yield b"10000\r\n" + bytes(1 << 16) + b"\r\n"

    return 200, {"Transfer-Encoding": "chunked"}, pieces()


def larger(path: str) -> Answered:
    size = 1 << 30
    return 200, {"Content-Length": str(size)}, (bytes(1 << 16) for _ in range(size >> 16))


def packed(path: str) -> Answered:
    """As it is, for a client that unpacks it."""
    import gzip

    content = gzip.compress(b"what was stored")
    return 200, {"Content-Encoding": "gzip", "Content-Length": str(len(content))}, iter([content])


@pytest.mark.parametrize("answer", [endless, larger, packed])
def test_of_a_content_no_more_is_read_than_its_digest_says(
    answer: Answer,
) -> None:
    with answering(answer) as (port, _):
        backend = connect(parse(f"http://127.0.0.1:{port}/team?timeout=30"))
        with suppress(RemoteError):
            for content in backend.contents([WANTED], no_progress).values():
                assert blob_of(content) != WANTED
                assert len(content) < 1 << 20
        backend.close()


def test_another_host_that_a_server_names_is_not_shown_whom_the_user_trusts(tmp_path: Path) -> None:
    """A custom header is: the client that obstore has treats these as curl does (see share.md)."""
    (tmp_path / "headers").write_text("Authorization: Bearer not-to-be-seen\nCookie: not-to-be-seen\n")

    def stored(path: str) -> Answered:
        return 200, {"Content-Length": "15"}, iter([b"what was stored"])

    with answering(stored) as (other, seen):

        def elsewhere(path: str) -> Answered:
            return 302, {"Location": f"http://localhost:{other}{path}", "Content-Length": "0"}, iter([])

        with answering(elsewhere) as (port, asked):
            backend = connect(parse(f"http://127.0.0.1:{port}/team?timeout=30&header-file={tmp_path}/headers"))
            assert backend.contents([WANTED], no_progress) == {WANTED: b"what was stored"}
            backend.close()
    assert asked[0]["authorization"] == "Bearer not-to-be-seen"
    assert [one for one in seen if "not-to-be-seen" in str(one)] == []


def test_a_server_that_names_a_file_is_at_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"what was stored")

    def here(path: str) -> Answered:
        return 302, {"Location": f"file://{tmp_path}/file", "Content-Length": "0"}, iter([])

    with answering(here) as (port, _):
        backend = connect(parse(f"http://127.0.0.1:{port}/team?timeout=30"))
        with pytest.raises(RemoteError):
            backend.contents([WANTED], no_progress)
        backend.close()


# What any server may answer


class Hostile:
    """A backend: `come` are its contents; `results` have one that needs them."""

    def __init__(self, come: dict[Blob, bytes], work: Callable[[Progress], object] = bool) -> None:
        self.come = come
        self.work = work

    def results(self, actions: Sequence[Blob], progress: Progress) -> dict[Blob, bytes]:
        name = digest_bytes(b"what was stored")
        record = b'{"outputs":["%s"],"passing":[],"text":"","seconds":1}' % name.encode()
        return {action_of(KEY, SEAL): envelope.pack(Envelope(KEY, record, {name: WANTED}), SEAL)}

    def contents(self, wanted: Sequence[Blob], progress: Progress) -> dict[Blob, bytes]:
        self.work(progress)
        return self.come


COME: dict[str, dict[Blob, bytes]] = {
    "nothing": {},
    "upper case": {Blob(WANTED.hash.upper(), WANTED.size): b"what was stored"},
    "another size": {Blob(WANTED.hash, WANTED.size + 1): b"what was stored"},
    "never asked for": {blob_of(b"another"): b"another"},
    "no hash": {Blob("", 0): b""},
    "cut": {WANTED: b"what was"},
    "another": {WANTED: b"what was stolen"},
}


@pytest.mark.parametrize("which", COME)
def test_a_content_under_another_digest_is_a_miss(tmp_path: Path, which: str) -> None:
    store = LocalStore(tmp_path / "store", max_bytes=1 << 30)
    backend: Backend = Hostile(COME[which])  # type: ignore[assignment]
    tally = Transfer(store, backend, SEAL).fetch([KEY], no_progress)
    assert (tally.hits, tally.found) == (0, [])
    assert store.get_action(KEY) is None
    assert (tally.errors > 0) == (which != "nothing")


@pytest.mark.parametrize("name", ["../../.bashrc", "/etc/passwd", "AB" * 32, "a" * 63, "", "ab" * 32 + "\n"])
def test_a_result_whose_outputs_are_no_digests_is_damaged(name: str) -> None:
    raw = envelope.pack(Envelope(KEY, b"{}", {name: WANTED}), SEAL)
    with pytest.raises(Damaged):
        envelope.unpack(KEY, raw, SEAL)


@pytest.mark.parametrize("blob", [Blob("AB" * 32, 1), Blob("ab" * 32, -1), Blob("ab" * 32, 1 << 40), Blob("", 0)])
def test_a_result_with_an_impossible_digest_is_damaged(blob: Blob) -> None:
    raw = envelope.pack(Envelope(KEY, b"{}", {"cd" * 32: blob}), SEAL)
    with pytest.raises(Damaged):
        envelope.unpack(KEY, raw, SEAL)


def test_a_result_with_thousands_of_outputs_is_damaged() -> None:
    raw = envelope.pack(Envelope(KEY, b"{}", {f"{number:064x}": WANTED for number in range(5000)}), SEAL)
    with pytest.raises(Damaged):
        envelope.unpack(KEY, raw, SEAL)


@pytest.mark.parametrize("ahead", [False, True])
def test_a_server_that_goes_on_and_brings_nothing_is_left(tmp_path: Path, *, ahead: bool) -> None:
    ended = threading.Event()

    def drip(progress: Progress) -> None:
        while not ended.wait(0.05):
            progress(1)

    address = parse("grpc://cache:1?timeout=0.5")
    backend: Backend = Hostile({}, drip)  # type: ignore[assignment]
    store = LocalStore(tmp_path / "store", max_bytes=1 << 30)
    remote = Remote(address, store, lambda: backend, Breaker(0.5))
    fetches = Fetches(Config(dir=tmp_path / "store"), store, [remote])
    answer = fetches.fetch([KEY], lambda: None, fetches.account(""), ahead=ahead)
    ended.set()
    assert not answer["fetched"]
    # On a busy machine it may seem silent.
    assert answer["told"][0] in [f"remote 'grpc://cache:1': it {why}" for why in ("is slow", "does not answer in time")]


# Files of secrets


@pytest.mark.parametrize(
    "text",
    [
        "X Key: not-to-be-seen\n",
        ": not-to-be-seen\n",
        ":path: not-to-be-seen\n",
        "not-to-be-seen\n",
        "X-Key: not-to-be-seen\x00\n",
        "X-Key: not-to\x1b-be-seen\n",
        "X-Kéy: not-to-be-seen\n",
    ],
)
def test_a_header_that_cannot_be_sent_is_told_without_what_is_secret(tmp_path: Path, text: str) -> None:
    (tmp_path / "headers").write_text(text, newline="")
    with pytest.raises(RemoteError) as told:
        backend.read_credentials(parse(f"http://cache?header-file={tmp_path}/headers"))
    assert "not-to-be-seen" not in str(told.value)


@pytest.mark.parametrize("end", ["\r", "\r\n", "\x0b", "\n\r"])
def test_no_header_goes_on_in_another_line(tmp_path: Path, end: str) -> None:
    (tmp_path / "headers").write_text(f"X-Key: one{end}X-Other: two{end}", newline="")
    (tmp_path / "token").write_text(f"one{end}X-More: three", newline="")
    address = parse(f"http://cache?header-file={tmp_path}/headers")
    assert backend.read_credentials(address).headers == {"x-key": "one", "x-other": "two"}
    with pytest.raises(RemoteError, match="cannot be sent"):
        backend.read_credentials(parse(f"http://cache?token-file={tmp_path}/token"))


@pytest.mark.parametrize("option", ["token-file", "header-file"])
def test_who_names_a_pipe_does_not_wait_for_it(tmp_path: Path, option: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RemoteError, match="is not a file"):
        backend.read_credentials(parse(f"http://cache?{option}={tmp_path}/pipe"))
