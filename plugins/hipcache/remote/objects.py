"""Remotes that hold objects by name, through obstore: plain HTTP (bazel-remote, nginx with DAV ...), S3, GCS, Azure.

Names: `PREFIX/ac/HASH` is the ActionResult of the action with that digest, `PREFIX/cas/HASH` the content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar

import obstore
from obstore import exceptions, store

from hipcache.base.patterns import pattern
from hipcache.remote.address import Address
from hipcache.remote.backend import (
    ANSWER,
    CONNECT,
    DENIED,
    FULL,
    LIMITED,
    MOST_CONTENT,
    MOST_RESULT,
    SETTINGS,
    TOO_LARGE,
    UNREACHABLE,
    Blob,
    Credentials,
    Progress,
    RemoteError,
)

S = TypeVar("S")
T = TypeVar("T")

_AT_ONCE = 64  # requests: those of one compile for 8 archs are one round trip
# Uploads, which nobody waits for: each has more of a slow line.
_SENT_AT_ONCE = 16
# Seconds for one request with all its content: what is slower is worth nothing.
_WHOLE = 30


# In obstore's messages and their causes, in which there is no class for these. The first that is found counts.
_FAULTS = {
    "connection refused": "it cannot be reached: connection refused",
    "dns error": "it cannot be reached: there is no such host",
    "timed out": "it does not answer in time",
    "timedout": "it does not answer in time",
    "content-length header missing": "it, or a proxy before it, sends answers without their length",
    "notvalidforname": "its certificate is for another host name",
    "invalidcertificate( expired": "its certificate has expired",
    "invalidcertificate( notvalidyet": "its certificate is not valid yet",
    "alertreceived( certificaterequired": "it asks for a client's certificate",
    "alertreceived(": "it refuses the TLS connection",
    "certificate": "its certificate is not trusted",
    "invalidcontenttype": "it does not speak TLS",
    "unexpectedmessage": "it does not speak HTTP/1.1",
    " parse(": "it does not speak HTTP/1.1",
    "badscheme": "it redirects to an address that is not followed",
    "following redirect": "it redirects in circles",
    "error trying to connect": "it cannot be reached",
    "error sending request": "it cannot be reached",
}
# In an answer with a status (nginx, 400), whose words are the server's own.
_SAID = {"no required ssl certificate": "it asks for a client's certificate", "to https port": "it speaks TLS only"}
# By those words.
_HINTS = {
    "it cannot be reached: connection refused": "start the server, or correct the host and port of its address",
    "it cannot be reached: there is no such host": "correct the host of its address, or this machine's DNS",
    "it, or a proxy before it, sends answers without their length": "switch off chunked or compressed answers there",
    "its certificate is for another host name": "write the host in the address as the certificate has it",
    "its certificate has expired": "renew it, or set this machine's clock",
    "its certificate is not valid yet": "set this machine's clock, or the server's",
    "it asks for a client's certificate": "https:// gives none: use grpcs:// with cert-file and key-file, or a token",
    "it refuses the TLS connection": "check its versions of TLS; to show it a certificate, use grpcs://",
    "its certificate is not trusted": "name the authority that has signed it: SSL_CERT_FILE=/PATH",
    "it does not speak TLS": "write http:// for a server without TLS, or correct the port",
    "it speaks TLS only": "write https://",
    "it redirects to an address that is not followed": "check its rules: http:// is not followed behind https://",
    "it redirects in circles": "check its rules, and those of a proxy before it",
    "it does not speak HTTP/1.1": "write grpc:// for a gRPC server, or correct the port",
}
# The library looks at the variables first, also at empty ones.
_NO_AUTHORITIES = "SSL_CERT_FILE or SSL_CERT_DIR is set and names no certificates, or this system has none"
_NO_AUTHORITIES_HINT = "correct or unset them (an empty one counts, too), or install the package ca-certificates"
# The address of an object, which says nothing to anybody.
_WHERE = pattern(r"Error performing .*? - ")
_ADDRESS = pattern(r"\w+://\S*")
_STATUS = pattern(r"status code: (\d{3}[A-Za-z -]*)")


class ObjectStore:
    """`found`: obstore's; `patient` makes another one, for uploads, which counts no time but that of the whole request:
    some milliseconds, which a fetch does not need."""

    def __init__(self, found: Any, patient: Callable[[], Any]) -> None:
        self._store, self._make_patient = found, patient
        # Two: no fetch waits for a thread in which an upload is slow.
        self._fetching = ThreadPoolExecutor(_AT_ONCE, "remote")
        self._sending = ThreadPoolExecutor(_SENT_AT_ONCE, "remote-sent")

    @cached_property
    def _patient(self) -> Any:
        return self._make_patient()

    def begin(self) -> None:
        """There is no connection before the first request."""

    def results(self, actions: Sequence[Blob], progress: Progress) -> dict[Blob, bytes]:
        return self._get(actions, "ac", lambda action: MOST_RESULT, progress)

    def put_result(self, action: Blob, result: bytes) -> None:
        self._put("ac", action, result)

    def contents(self, wanted: Sequence[Blob], progress: Progress) -> dict[Blob, bytes]:
        return self._get(wanted, "cas", lambda blob: min(blob.size, MOST_CONTENT), progress)

    def lacking(self, contents: Iterable[Blob]) -> set[Blob]:
        return {blob for blob, there in self._each(self._sending, self._has, list(contents)) if not there}

    def put_contents(self, contents: Iterable[tuple[Blob, bytes]]) -> None:
        self._each(self._sending, lambda content: self._put("cas", *content), list(contents))

    def stored_at(self, content: Blob) -> float | None:
        try:
            stored: float = obstore.head(self._store, f"cas/{content.hash}")["last_modified"].timestamp()
            return stored or None  # the epoch where the server does not say it
        except Exception as error:
            raise _as_remote_error(error) from error

    def describe(self) -> str:
        return "objects by name"

    def close(self) -> None:
        for pool in (self._fetching, self._sending):
            pool.shutdown(wait=False, cancel_futures=True)

    def _each(self, pool: ThreadPoolExecutor, work: Callable[[S], T], wanted: list[S]) -> list[tuple[S, T]]:
        """The work on all of them at once. Raises the first error, without waiting for what is behind it."""
        futures = [(blob, pool.submit(work, blob)) for blob in wanted]
        try:
            return [(blob, future.result()) for blob, future in futures]
        finally:
            for _, future in futures:
                future.cancel()

    def _get(
        self, wanted: Sequence[Blob], directory: str, most: Callable[[Blob], int], progress: Progress
    ) -> dict[Blob, bytes]:
        """What is larger than it may be is cut, and so is damaged."""

        def get(blob: Blob) -> bytes | None:
            content = self._read(f"{directory}/{blob.hash}", most(blob), progress)
            progress(len(content or b""))
            return content

        return {blob: content for blob, content in self._each(self._fetching, get, list(wanted)) if content is not None}

    def _read(self, path: str, most: int, progress: Progress) -> bytes | None:
        try:
            found = obstore.get(self._store, path)
            parts, size = [], 0
            for part in found.stream(min_chunk_size=1 << 18) if found.meta["size"] <= most else ():
                parts.append(bytes(part))
                size += len(parts[-1])
                progress(0)
                if size > most:
                    break
            return b"".join(parts)
        except (FileNotFoundError, exceptions.NotFoundError):
            return None
        except Exception as error:
            raise _as_remote_error(error) from error

    def _has(self, blob: Blob) -> bool:
        try:
            return bool(obstore.head(self._patient, f"cas/{blob.hash}")["size"] == blob.size)
        except (FileNotFoundError, exceptions.NotFoundError):
            return False
        except Exception as error:
            raise _as_remote_error(error) from error

    def _put(self, directory: str, blob: Blob, content: bytes) -> None:
        try:
            obstore.put(self._patient, f"{directory}/{blob.hash}", content, use_multipart=False)
        except Exception as error:
            raise _as_remote_error(error) from error


def connect(address: Address, credentials: Credentials) -> ObjectStore:
    """Nothing is sent yet. Raises RemoteError where the settings are no good."""
    try:
        # An answer to an upload begins when all of the content has been sent, which takes long over a slow line.
        return ObjectStore(
            _opened(address, credentials, ANSWER * address.timeout), lambda: _opened(address, credentials, _WHOLE)
        )
    except Exception as error:
        if _lacks_authorities(error):
            raise RemoteError(SETTINGS, _NO_AUTHORITIES, _NO_AUTHORITIES_HINT) from error
        raise RemoteError(SETTINGS, _first_line(error)) from error


def _opened(address: Address, credentials: Credentials, answer: float) -> Any:
    """`answer`: seconds in which each begins."""
    options: dict[str, Any] = {
        "connect_timeout": f"{round(CONNECT * address.timeout * 1000)}ms",
        "read_timeout": f"{round(answer * 1000)}ms",
        "timeout": f"{_WHOLE}s",
        "allow_http": address.scheme == "http" or address.endpoint.startswith("http:"),
        "default_headers": credentials.headers,
    }
    told: dict[str, Any] = {"client_options": options, "retry_config": {"max_retries": 0}}
    place: dict[str, Any] = {"prefix": address.path} if address.path else {}
    if address.scheme in ("http", "https"):
        url = f"{address.scheme}://{address.host}/{address.path}".rstrip("/")
        try:
            return store.HTTPStore(url, **told)
        except Exception as error:
            if address.scheme == "https" or not _lacks_authorities(error):
                raise
            # What comes over http:// may be anybody's, also behind a redirect to https://: no authority is needed.
            options["allow_invalid_certificates"] = True
            return store.HTTPStore(url, **told)
    if address.scheme == "s3":
        return store.S3Store(address.host, **place, **_endpoint(address, "endpoint"), **told)
    if address.scheme == "gs":
        return store.GCSStore(address.host, **place, **_endpoint(address, "base_url"), **told)
    return store.AzureStore(address.host, **place, **_endpoint(address, "endpoint"), **told)


def _endpoint(address: Address, name: str) -> dict[str, Any]:
    """Of a server that is not the cloud's own."""
    return {name: address.endpoint} if address.endpoint else {}


def _as_remote_error(error: Exception) -> RemoteError:
    if isinstance(error, RemoteError):
        return error
    text = str(error)
    if isinstance(error, (PermissionError, exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)):
        return RemoteError(DENIED, "it denies access")
    # Without credentials a cloud's client asks the machine that it runs on, at an address that says nothing to anybody.
    if any(place in text for place in ("//169.254.169.254", "//metadata.google.internal")):
        return RemoteError(DENIED, "there are no credentials for it: set the cloud's own variables")
    # obstore has no class of its own for these.
    if any(f"{status} " in text for status in ("413 Payload", "413 Request", "413 Content")):
        return RemoteError(TOO_LARGE, "it accepts no content of that size")
    if "507 Insufficient " in text:
        return RemoteError(FULL, "it accepts no more data")
    if "429 Too " in text:
        return RemoteError(FULL, LIMITED)
    if any(f"{status} " in text for status in ("401 Unauthorized", "403 Forbidden", "405 Method")):
        return RemoteError(DENIED, "it denies access")
    text = _ADDRESS.sub("", text)  # words of an address are no signs
    lines, status = " ".join(text.lower().split()), _STATUS.search(text)
    for sign, words in (_SAID if status else _FAULTS).items():
        if sign in lines:
            return RemoteError(UNREACHABLE, words, _HINTS.get(words, ""))
    if status:
        return RemoteError(UNREACHABLE, f"it answers with status {status[1].strip()}")
    return RemoteError(UNREACHABLE, _first_line(error))


def _lacks_authorities(error: Exception) -> bool:
    """Has the library found no certificate with which it could check a server's?"""
    text = str(error)
    return "builder error" in text and "certificates" in text


def _first_line(error: Exception) -> str:
    """Obstore's messages go on with the debugging form, in which there may be headers."""
    text = _WHERE.sub("", str(error).partition("\n")[0]).strip()
    return (text or type(error).__name__)[:200]
