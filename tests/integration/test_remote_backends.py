"""What every protocol of a remote must do: one contract, over real servers."""

from __future__ import annotations

import json
import time
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest
from cloud_servers import CLOUDS, Cloud
from remote_lab import CLOUD, HAS_CLIENTS, SERVERS, Server, casd, running

if not HAS_CLIENTS:
    pytest.skip("the extra 'remote' is not installed (scripts/setup.sh --remote)", allow_module_level=True)

from hipcache.base.values import replace
from hipcache.remote import envelope
from hipcache.remote.address import Address, parse
from hipcache.remote.backend import Backend, Blob, RemoteError, blob_of, connect
from hipcache.remote.envelope import Envelope, action_of
from hipcache.store.seal import Seal

KEY, OTHER = "ab" * 32, "cd" * 32
SEAL = Seal()
SMALL = b"content of some kind"
# More than a message of grpc may have, and not the same all over.
LARGE = array("I", range(3 << 20)).tobytes()


def test_the_command_of_the_unit_for_systemd_and_of_the_image_starts_a_server(tmp_path: Path) -> None:
    """With another port and directory. (Neither systemd nor a container is run.)"""
    one = casd(tmp_path)
    unit = (Path(__file__).parents[2] / "packaging/systemd/hipcache-server.service").read_text()
    (line,) = [line.partition("=")[2] for line in unit.splitlines() if line.startswith("ExecStart=")]
    program, bind, *words = line.split()
    assert program.endswith("/buildbox-casd") and bind == "--bind=0.0.0.0:9092"
    image = (Path(__file__).parents[2] / "packaging/containers/Dockerfile.server").read_text()
    entry = json.loads(image.partition("\nENTRYPOINT ")[2])
    assert entry == [program.rpartition("/")[2], bind, *words[:-1], "/cache"]
    one.argv = [*one.argv[:2], *(word.replace("%C", str(tmp_path)) for word in words)]
    with running(one):
        backend = connect(patient(one.url))
        backend.put_contents([(blob_of(SMALL), SMALL)])
        assert backend.contents([blob_of(SMALL)], lambda _: None) == {blob_of(SMALL): SMALL}
        backend.close()


@pytest.fixture(params={**SERVERS, **CLOUDS})
def server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    one = {**SERVERS, **CLOUDS}[request.param](tmp_path / "server")
    for name, value in {**CLOUD, **(one.environ if isinstance(one, Cloud) else {})}.items():
        monkeypatch.setenv(name, value)
    with running(one):
        yield one


def patient(url: str) -> Address:
    """With a time-out that is none of a test's: machines that run tests are busy."""
    return replace(parse(url), timeout=10.0)


@pytest.fixture
def backend(server: Server) -> Iterator[Backend]:
    found = connect(patient(server.url))
    yield found
    found.close()


def no_progress(size: int) -> None:
    pass


def put(backend: Backend, *contents: bytes) -> list[Blob]:
    blobs = [blob_of(content) for content in contents]
    backend.put_contents(zip(blobs, contents, strict=True))
    return blobs


def test_contents_come_back_by_their_digests_however_large_they_are(backend: Backend) -> None:
    blobs = put(backend, SMALL, LARGE)
    assert backend.contents([*blobs, blob_of(b"other")], no_progress) == dict(zip(blobs, (SMALL, LARGE), strict=True))


def test_a_hundred_contents_come_in_one_question(backend: Backend) -> None:
    contents = [b"%d" % number * 1000 for number in range(100)]
    blobs = put(backend, *contents)
    told: list[int] = []
    assert backend.contents(blobs, told.append) == dict(zip(blobs, contents, strict=True))
    assert told, "it says that it is at it"


def test_it_says_which_contents_it_lacks(backend: Backend) -> None:
    (there,) = put(backend, SMALL)
    absent = blob_of(b"absent")
    assert backend.lacking([there, absent]) == {absent}


def test_a_result_comes_back_under_its_action_alone(backend: Backend) -> None:
    (blob,) = put(backend, SMALL)
    kept = Envelope(KEY, b'{"outputs": []}', {"ef" * 32: blob}, (OTHER,))
    backend.put_result(action_of(KEY, SEAL), envelope.pack(kept, SEAL))
    found = backend.results([action_of(KEY, SEAL), action_of(OTHER, SEAL)], no_progress)
    assert list(found) == [action_of(KEY, SEAL)]
    assert envelope.unpack(KEY, found[action_of(KEY, SEAL)], SEAL) == kept


def test_a_later_result_takes_the_place_of_an_earlier_one(backend: Backend) -> None:
    for record in (b"old", b"new"):
        backend.put_result(action_of(KEY, SEAL), envelope.pack(Envelope(KEY, record, {}), SEAL))
    (found,) = backend.results([action_of(KEY, SEAL)], no_progress).values()
    assert envelope.unpack(KEY, found, SEAL).record == b"new"


def test_what_was_put_is_there_after_a_kill(server: Server, backend: Backend) -> None:
    if server.url.startswith("s3:"):
        pytest.skip("moto keeps all in memory")
    if server.url.startswith("az:"):
        pytest.skip("Azurite writes its list of blobs now and then")
    (blob,) = put(backend, SMALL)
    backend.put_result(action_of(KEY, SEAL), envelope.pack(Envelope(KEY, b"record", {}), SEAL))
    server.kill()
    server.start()
    again = connect(patient(server.url))
    assert again.contents([blob], no_progress) == {blob: SMALL}
    assert again.results([action_of(KEY, SEAL)], no_progress)
    again.close()


def test_a_server_that_is_gone_is_an_error_within_a_bound(server: Server, backend: Backend) -> None:
    server.kill()
    began = time.monotonic()
    with pytest.raises(RemoteError):
        backend.results([action_of(KEY, SEAL)], no_progress)
    with pytest.raises(RemoteError):
        backend.contents([blob_of(SMALL)], no_progress)
    assert time.monotonic() - began < 60, "it waits without a bound"


def test_it_says_what_it_is(backend: Backend) -> None:
    assert backend.describe()


def test_a_remote_at_a_unix_socket(tmp_path: Path) -> None:
    server = casd(tmp_path / "server")
    place = tmp_path / "socket"
    server.argv = [f"--bind=unix:{place}" if word.startswith("--bind=") else word for word in server.argv]
    server._answers = place.exists  # type: ignore[method-assign]
    with running(server):
        found = connect(parse(f"unix:{place}?timeout=10"))
        blobs = put(found, SMALL)
        assert found.contents(blobs, no_progress) == {blobs[0]: SMALL}
        found.close()
