"""What is told of a remote that is at fault: its cause, in a user's words, and nothing that acts on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remote_lab import HAS_CLIENTS

if not HAS_CLIENTS:
    pytest.skip("the extra 'remote' is not installed (scripts/setup.sh --remote)", allow_module_level=True)

import grpc
from grpc_server import listening
from hipcache.remote.address import parse
from hipcache.remote.backend import RemoteError, blob_of, connect
from hipcache.remote.breaker import Breaker
from hipcache.remote.helper import remotes
from hipcache.remote.helper.remotes import Remote
from hipcache.store.local import LocalStore
from test_remote_hostile import Answered, answering


class Aborting(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Ends each call with that status, and those words."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        self.code, self.details = code, details

    def service(self, details: Any) -> Any:
        def end(request: bytes, context: Any) -> None:
            context.abort(self.code, self.details)

        return grpc.unary_unary_rpc_method_handler(end)


@pytest.mark.parametrize("code", [grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT])
def test_the_words_of_a_server_do_not_act_on_a_terminal(code: grpc.StatusCode) -> None:
    with listening(Aborting(code, "\x1b[2J\x1b]0;title\x07 instance\x9b2J\n\u202eover"), 20) as url:
        ((good, text, _),) = remotes.examine(f"{url}?timeout=10")
    assert not good
    assert text.isprintable()
    assert text.endswith(" [2J ]0;title  instance 2J  over")


@pytest.fixture(params=["missing", "no PEM", ""])
def no_authority(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "no PEM").write_text("nothing")
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", request.param and str(tmp_path / request.param))


@pytest.mark.usefixtures("no_authority")
def test_a_variable_that_names_no_certificates_is_told(tmp_path: Path) -> None:
    for url in ("https://cache/main", "s3://bucket"):
        with pytest.raises(RemoteError, match="SSL_CERT_FILE") as raised:
            connect(parse(url))
        assert "unset" in raised.value.hint
    remote = Remote(parse("https://cache"), LocalStore(tmp_path, max_bytes=0), list, Breaker())  # type: ignore[arg-type]
    remote.failed(raised.value)
    told = remote.fault()
    assert told
    assert told[1] == raised.value.hint, "HIPCACHE_REMOTE is right"


@pytest.mark.usefixtures("no_authority")
def test_a_server_without_tls_needs_no_certificates() -> None:
    def stored(path: str) -> Answered:
        return 200, {"Content-Length": "6"}, iter([b"stored"])

    with answering(stored) as (port, _):
        backend = connect(parse(f"http://127.0.0.1:{port}/team?timeout=10"))
        assert backend.contents([blob_of(b"stored")], lambda size: None) == {blob_of(b"stored"): b"stored"}
        backend.close()


def test_answers_without_a_length_are_told() -> None:
    def stored(path: str) -> Answered:
        return 200, {"Transfer-Encoding": "chunked"}, iter([b"6\r\nstored\r\n0\r\n\r\n"])

    with answering(stored) as (port, _):
        ((good, text, hint),) = remotes.examine(f"http://127.0.0.1:{port}/team?timeout=10")
    assert not good
    assert text.endswith("': it, or a proxy before it, sends answers without their length")
    assert "chunked" in hint


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_server_that_limits_requests_is_not_full(scheme: str) -> None:
    def limited(path: str) -> Answered:
        return 429, {"Content-Length": "0"}, iter([])

    exhausted = Aborting(grpc.StatusCode.RESOURCE_EXHAUSTED, "quota")
    with answering(limited) as (port, _), listening(exhausted, 20) as url:
        backend = connect(parse(f"{url if scheme == 'grpc' else f'http://127.0.0.1:{port}'}?timeout=10"))
        with pytest.raises(RemoteError, match="it limits how many requests it takes"):
            backend.results([blob_of(b"action")], lambda size: None)
        with pytest.raises(RemoteError, match="it accepts no more data" if scheme == "grpc" else "it limits how many"):
            backend.put_result(blob_of(b"action"), b"")
        backend.close()


@pytest.mark.parametrize(
    ("to", "told"),
    [
        ("", "it redirects in circles"),
        ("ftp://cache/", "it redirects to an address that is not followed"),
    ],
)
def test_a_redirect_that_leads_nowhere_is_told(to: str, told: str) -> None:
    def elsewhere(path: str) -> Answered:
        return 302, {"Location": to or path, "Content-Length": "0"}, iter([])

    with answering(elsewhere) as (port, _):
        ((good, text, _),) = remotes.examine(f"http://127.0.0.1:{port}/team?timeout=10")
    assert not good
    assert text.endswith(f"': {told}")


@pytest.mark.parametrize("path", ["certificates", "a,timedout", "BadScheme", "invalidcontenttype"])
@pytest.mark.parametrize(
    ("status", "told"),
    [
        (302, "it redirects in circles"),
        (500, "it answers with status 500 Internal Server Error"),
        (503, "it answers with status 503 Service Unavailable"),
    ],
)
def test_the_words_of_an_address_are_not_taken_for_the_fault(path: str, status: int, told: str) -> None:
    def answer(asked: str) -> Answered:
        return status, {"Location": asked, "Content-Length": "11"}, iter([b"certificate"])

    with answering(answer) as (port, _):
        ((good, text, _),) = remotes.examine(f"http://127.0.0.1:{port}/{path}?timeout=10")
    assert not good
    assert text.endswith(f"': {told}")


def test_what_is_not_known_is_told_without_the_address_of_an_object() -> None:
    from hipcache.remote.objects import _as_remote_error

    error = OSError("Generic S3 error: Error performing GET http://cache/ac/267c in 6.18ms - HTTP error: odd\n\nDebug")
    assert str(_as_remote_error(error)) == "Generic S3 error: HTTP error: odd"
