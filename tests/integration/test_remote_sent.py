"""Contents on their way to a server: over a slow line, in portions, in place of damaged ones."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from remote_lab import HAS_CLIENTS, SECONDS

if not HAS_CLIENTS:
    pytest.skip("the extra 'remote' is not installed (scripts/setup.sh --remote)", allow_module_level=True)

import grpc
from cas_lab import Cas, serving
from hipcache.config import Config
from hipcache.remote import queue
from hipcache.remote import reapi_pb2 as pb
from hipcache.remote.address import parse
from hipcache.remote.backend import RemoteError, blob_of, connect
from hipcache.remote.client import Client
from hipcache.remote.helper.transfer import Transfer
from hipcache.remote.queue import Item
from hipcache.store.local import LocalStore

# Bytes of contents: more than 2 MiB in all, and one of more than that alone.
SIZES = (1000, 900_000, 900_000, 900_000, 2_500_000)


def no_progress(size: int) -> None:
    pass


class Web(BaseHTTPRequestHandler):
    """Keeps what is put, when `before` has ended, which is told of each PUT."""

    protocol_version = "HTTP/1.1"
    kept: dict[str, bytes]
    before: Callable[[], object]

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).before()
        self.kept[self.path] = content
        self._answer(201)

    def do_GET(self) -> None:
        self._answer(200 if self.path in self.kept else 404, self.kept.get(self.path, b""))

    do_HEAD = do_GET

    def _answer(self, status: int, content: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


class WebServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


@contextmanager
def web(before: Callable[[], object] = bool) -> Iterator[tuple[str, dict[str, bytes]]]:
    """The address, and what is there by its path."""
    kept: dict[str, bytes] = {}
    kind = type("Kept", (Web,), {"kept": kept, "before": staticmethod(before)})
    with WebServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/team", kept
        server.shutdown()


def test_an_upload_may_take_longer_than_an_answer() -> None:
    content = b"what takes long"
    with web(lambda: time.sleep(1.2)) as (url, kept):
        backend = connect(parse(f"{url}?timeout=1"))
        backend.put_contents([(blob_of(content), content)])
        backend.close()
    assert list(kept.values()) == [content]


def test_uploads_that_are_slow_hold_up_no_fetch() -> None:
    many, begun, ended = 300, threading.Semaphore(0), threading.Event()

    def slow() -> None:
        begun.release()
        ended.wait(SECONDS)

    contents = [(blob_of(b"%d" % number), b"%d" % number) for number in range(many)]
    with web(slow) as (url, kept):
        kept[f"/team/cas/{blob_of(b'here').hash}"] = b"here"
        backend = connect(parse(f"{url}?timeout=30"))
        sending = threading.Thread(target=backend.put_contents, args=(contents,))
        sending.start()
        try:
            assert begun.acquire(timeout=SECONDS)
            assert backend.contents([blob_of(b"here")], no_progress) == {blob_of(b"here"): b"here"}
            assert len(kept) == 1
        finally:
            ended.set()
            sending.join(SECONDS)
            backend.close()
    assert len(kept) == many + 1


def test_a_batch_is_no_larger_than_the_server_says() -> None:
    """Who fetches first asks for that when its batch is refused."""
    contents = {blob_of(content): content for content in (bytes([number]) * size for number, size in enumerate(SIZES))}
    cas = Cas(most=2 << 20)
    with serving(cas) as url:
        sender, reader = connect(parse(url)), connect(parse(url))
        assert sender.lacking(contents) == contents.keys()
        sender.put_contents(contents.items())
        for _ in range(2):
            assert reader.contents(list(contents), no_progress) == contents
        sender.close()
        reader.close()
    assert cas.asked.count("GetCapabilities") == 2


@pytest.mark.parametrize("stored", [1 << 20, -1, 2_500_000])
def test_a_stream_counts_as_sent_if_the_server_has_all_of_it(stored: int) -> None:
    """It may end the stream early, also where another client has sent that content."""

    class Early(Cas):
        def _write(self, requests: Iterator[bytes], context: Any) -> bytes:
            next(requests)
            return bytes(pb.WriteResponse(committed_size=stored).SerializeToString())

    content = bytes(2_500_000)
    with serving(Early(most=2 << 20)) as url:
        backend, told = connect(parse(url)), ""
        try:
            backend.put_contents([(blob_of(content), content)])
        except RemoteError as error:
            told = str(error)
        backend.close()
    assert bool(told) == (stored != len(content))


def test_a_batch_that_is_refused_for_another_reason_is_a_fault_once() -> None:
    content = b"it"
    cas = Cas()
    cas.contents[blob_of(content).hash] = content
    with serving(cas) as url:
        backend = connect(parse(url))
        cas.most = -1  # of no batch, and that is not a bound
        with pytest.raises(RemoteError, match="invalid argument"):
            backend.contents([blob_of(content)], no_progress)
        backend.close()
    assert cas.asked == ["BatchReadBlobs", "GetCapabilities"]


@pytest.mark.parametrize("size", [10, 4 << 20], ids=["in a batch", "as a stream"])
def test_a_content_that_the_server_cannot_read_costs_no_other_one(size: int) -> None:
    good, bad = b"g" * size, b"b" * size
    cas = Cas(statuses={blob_of(bad).hash: grpc.StatusCode.DATA_LOSS})
    cas.contents[blob_of(good).hash] = good
    with serving(cas) as url:
        backend = connect(parse(url))
        found = backend.contents([blob_of(bad), blob_of(good)], no_progress)
        backend.close()
    assert found.pop(blob_of(good)) == good
    assert [blob_of(content) == blob for blob, content in found.items()] == [False], "an error, not only a miss"


def test_a_content_that_is_denied_is_a_fault_of_the_server() -> None:
    cas = Cas(statuses={blob_of(b"it").hash: grpc.StatusCode.PERMISSION_DENIED})
    with serving(cas) as url:
        backend = connect(parse(url))
        with pytest.raises(RemoteError):
            backend.contents([blob_of(b"it")], no_progress)
        backend.close()


KEY, MADE = "ab" * 32, b"what was made" * 1000


def transfer(place: Path, url: str) -> Transfer:
    store = LocalStore(place, max_bytes=1 << 30)
    return Transfer(store, connect(parse(f"{url}?timeout=30")), store.seal)


def compiled(there: Transfer) -> Transfer:
    """Its store has a result."""
    record = {"outputs": [there.store.put_blob(MADE)], "passing": [], "text": "", "seconds": 1.0}
    there.store.put_action(KEY, json.dumps(record).encode())
    return there


def damaged(kept: dict[str, bytes]) -> str:
    """The path of the only content, which is another one now, of the same size."""
    (path,) = (path for path in kept if "/cas/" in path)
    kept[path] = bytes(len(kept[path]))
    return path


def test_a_content_that_came_damaged_is_sent_anew(tmp_path: Path) -> None:
    with web() as (url, kept):
        assert compiled(transfer(tmp_path / "first", url)).upload([Item("", (KEY,), ())], no_progress).uploads == 1
        path = damaged(kept)
        second = transfer(tmp_path / "second", url)
        assert second.fetch([KEY], no_progress).errors == 1
        compiled(second).upload([Item("", (KEY,), ())], no_progress)
        assert kept[path] == MADE
        assert second.upload([Item("", (KEY,), ())], no_progress).sent < len(MADE), "it is there again"


def test_what_replaces_results_is_sent_though_the_server_has_it(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store", max_bytes=1 << 30)
    with web() as (url, kept):
        compiled(transfer(tmp_path / "first", url)).upload([Item("", (KEY,), ())], no_progress)
        path = damaged(kept)
        second = compiled(transfer(tmp_path / "second", url))
        Client(Config(dir=store.root, remote=(url,), recache=True), {}, lambda fault, hint: None).queue([KEY], [])
        items, _ = queue.read(store.confined, 1)
        second.upload(items, no_progress)
        assert kept[path] == MADE
