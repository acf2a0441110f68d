"""Remotes that speak the Remote Execution API, version 2: ActionCache, ContentAddressableStorage and ByteStream.

Servers differ in how much they take at once: what they say (`max_batch_total_size_bytes`, 0: anything) counts as an
upper bound, and so does BATCH, as grpc's own limit of a message is 4 MiB. A content above that goes as a stream.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from hipcache.remote.address import Address
from hipcache.remote.backend import (
    ANSWER,
    DENIED,
    FULL,
    LIMITED,
    MOST_CONTENT,
    MOST_RESULT,
    SETTINGS,
    UNREACHABLE,
    Blob,
    Credentials,
    Progress,
    RemoteError,
)


class _StandIn(ModuleType):
    """Is the module as soon as anything of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        own = self.__name__
        if sys.modules.get(own) is self:
            sys.modules.pop(own, None)
        return getattr(importlib.import_module(own), name)


@contextmanager
def put_off(*names: str) -> Iterator[None]:
    """Within this, to import one of these modules loads nothing until it is first used. One that is loaded stays.

    `grpc` imports `asyncio` (with `ssl` and `subprocess`) and its own interface to it, a fifth of its time, and each
    build has to wait for that; `inspect`, too. `google.protobuf` imports what it needs where it has no part in C.
    `importlib.util.LazyLoader` is of no help: Python looks at a module whenever it is imported again, and that loads
    it."""
    made = {name: _StandIn(name) for name in names if name not in sys.modules}
    sys.modules.update(made)
    try:
        yield
    finally:
        for name, module in made.items():
            # Others who import it shall have the module itself.
            if sys.modules.get(name) is module:
                del sys.modules[name]


with put_off("asyncio", "grpc.aio", "inspect", "google.protobuf.internal.python_message"):
    import grpc

    from hipcache.remote import reapi_pb2 as pb

_KINDS: dict[Any, tuple[str, str]] = {
    grpc.StatusCode.UNAUTHENTICATED: (DENIED, "it denies access"),
    grpc.StatusCode.PERMISSION_DENIED: (DENIED, "it denies access"),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (FULL, LIMITED),
    grpc.StatusCode.DEADLINE_EXCEEDED: (UNREACHABLE, "it does not answer in time"),
}
# Of one content in an answer: what they say holds for the whole server, and others for that content alone.
_OF_SERVER = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
)
_CLIENTS = "check whether it asks for a client's certificate: cert-file and key-file of an authority that it trusts"
# In what the library says, in words that change from one version to another and name its own parts: in a user's words,
# and what to do. The first that is found counts.
_SIGNS = (
    ("wrong_version_number", "it does not speak TLS", "write grpc:// for a server without TLS, or correct the port"),
    (
        "failed parsing http/2",
        "it does not speak gRPC, or only with TLS",
        "write grpcs:// for a server with TLS, http:// for a web server, or correct the port",
    ),
    ("certificate has expired", "its certificate has expired", "renew it, or set this machine's clock"),
    ("certificate is not yet valid", "its certificate is not valid yet", "set this machine's clock, or the server's"),
    ("unwrap failed", "it refuses the TLS connection", _CLIENTS),
    ("_alert_", "it refuses the TLS connection", f"{_CLIENTS}, and the versions of TLS it has"),
    (
        "certificate_verify_failed",
        "its certificate is not trusted",
        "name the authority that has signed it: ?ca-file=/PATH",
    ),
    (
        "hostname verification",
        "its certificate is for another host name",
        "write the host in the address as the certificate has it",
    ),
    (
        "security handshaker",
        "the certificates that its address names cannot be used",
        "check ca-file, cert-file and key-file: PEM, and the key must be the certificate's",
    ),
    ("no such file", "it cannot be reached: there is no such socket", "start the server, or correct the path"),
    (
        "connection refused",
        "it cannot be reached: connection refused",
        "start the server, or correct the host and port of its address",
    ),
    (
        "address lookup failed",
        "it cannot be reached: there is no such host",
        "correct the host of its address, or this machine's DNS",
    ),
    ("domain name not found", "it cannot be reached: there is no such host", "correct the host of its address"),
    ("unreachable", "it cannot be reached: there is no route to it", "check the network, a VPN or a firewall"),
    ("no route to host", "it cannot be reached: there is no route to it", "check the network, a VPN or a firewall"),
    ("timed out", "it does not answer in time", "check the network, a firewall, and the port of its address"),
    ("connection reset", "it closed the connection", "check the server's log, and whether the port is for gRPC"),
    ("socket closed", "it closed the connection", "check the server's log, and whether the port is for gRPC"),
    (
        "http2 header with status: 5",
        "a proxy before it answers with an error",
        "check the proxy's log, and the server behind it",
    ),
    (
        "http2 header with status: 400",
        "it does not speak gRPC, or asks for a client's certificate",
        "write http:// or https:// for a web server, or name cert-file and key-file",
    ),
    (
        "http2 header with status",
        "it does not speak gRPC",
        "write http:// or https:// for a web server, or correct the port",
    ),
)
# Characters of what the library says, where nothing of it is known.
_MOST_DETAILS = 120
_NOT_GRPC = "Received http2 header with status"  # the library's, too; with code INTERNAL for status 400
_INSTANCE = "correct the instance: in the address, all that follows HOST:PORT/"
_NOT_OFFERED = "it does not offer all calls of the Remote Execution API"


def is_status(error: RemoteError, code: grpc.StatusCode) -> bool:
    """Did the server answer with it?"""
    cause = error.__cause__
    return isinstance(cause, grpc.RpcError) and cause.code() is code


def is_of_server(code: int) -> bool:
    return code in [status.value[0] for status in _OF_SERVER]


def as_remote_error(error: Any, *, sent: bool = False) -> RemoteError:
    """`sent`: of a call that brought something to keep."""
    code = error.code()
    if sent and code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return RemoteError(FULL, "it accepts no more data")
    if code in _KINDS:
        return RemoteError(*_KINDS[code])
    details = " ".join(str(error.details() or "").split())
    library = code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNIMPLEMENTED)
    if library or details.startswith(_NOT_GRPC):  # of others the words are the server's
        for sign, words, hint in _SIGNS:
            if sign in details.lower():
                return RemoteError(UNREACHABLE, words, hint)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return RemoteError(UNREACHABLE, f"{_NOT_OFFERED}: {details[:_MOST_DETAILS]}")
    if code is grpc.StatusCode.INVALID_ARGUMENT and "instance" in details.lower():
        return RemoteError(UNREACHABLE, f"it rejects the instance of the address: {details[:_MOST_DETAILS]}", _INSTANCE)
    return RemoteError(UNREACHABLE, f"{code.name.lower().replace('_', ' ')}: {details[:_MOST_DETAILS]}")


BATCH = 3 << 20  # bytes
_DIGEST = 100  # bytes, at most
_PIECE = 1 << 20  # bytes of a stream's message
_MANY = 1000  # digests in one question
# Seconds for what carries content.
_WHOLE = 30
_SHA256 = 1
_API, _STREAM = "build.bazel.remote.execution.v2", "google.bytestream.ByteStream"
# A content that the server has, but cannot read: what comes is another one than its name says.
_UNREADABLE = b""
# Statuses of grpc.
_OK, _NOT_FOUND = 0, 5


class Reapi:
    """`instance`: the name of the server's instance; `metadata`: sent with each call;
    `timeout`: seconds for an answer without content."""

    def __init__(self, channel: Any, instance: str, metadata: Sequence[tuple[str, str]], timeout: float) -> None:
        self.channel = channel
        self.instance = instance
        self.metadata = tuple(metadata)
        self._timeout = timeout
        self._is_checked = False
        self._batch = BATCH
        call = self._unary
        self._get_result = call(f"{_API}.ActionCache/GetActionResult", pb.ActionResult)
        self._put_result = call(f"{_API}.ActionCache/UpdateActionResult", pb.ActionResult)
        self._missing = call(f"{_API}.ContentAddressableStorage/FindMissingBlobs", pb.FindMissingBlobsResponse)
        self._update = call(f"{_API}.ContentAddressableStorage/BatchUpdateBlobs", pb.BatchUpdateBlobsResponse)
        self._batch_read = call(f"{_API}.ContentAddressableStorage/BatchReadBlobs", pb.BatchReadBlobsResponse)
        self._capabilities = call(f"{_API}.Capabilities/GetCapabilities", pb.ServerCapabilities)
        self._read = channel.unary_stream(f"/{_STREAM}/Read", serialized, pb.ReadResponse.FromString)
        self._write = channel.stream_unary(f"/{_STREAM}/Write", serialized, pb.WriteResponse.FromString)

    def begin(self) -> None:
        ended = (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE)

        def seen(state: Any) -> None:
            if state in ended:
                self.channel.unsubscribe(seen)

        self.channel.subscribe(seen, try_to_connect=True)

    def results(self, actions: Sequence[Blob], progress: Progress) -> dict[Blob, bytes]:
        requests = [
            pb.GetActionResultRequest(instance_name=self.instance, action_digest=digest_of(action), inline_stdout=True)
            for action in actions
        ]
        found = {}
        try:
            for action, answer in zip(
                actions, self._each(self._get_result, requests, self._timeout, progress), strict=True
            ):
                if answer is not None:
                    found[action] = self._with_output(answer, progress).SerializeToString()
        except RemoteError as error:
            if is_status(error, grpc.StatusCode.INVALID_ARGUMENT):
                # Are its digests others? Not asked before, as that is a round trip.
                self._check(self._timeout)
            raise
        return found

    def _with_output(self, result: Any, progress: Progress) -> Any:
        """A server may have put the output elsewhere."""
        if not result.stdout_raw and 0 < result.stdout_digest.size_bytes <= MOST_RESULT:
            blob = Blob(result.stdout_digest.hash, result.stdout_digest.size_bytes)
            result.stdout_raw = self.contents([blob], progress).get(blob, b"")
        return result

    def put_result(self, action: Blob, result: bytes) -> None:
        request = pb.UpdateActionResultRequest(
            instance_name=self.instance,
            action_digest=digest_of(action),
            action_result=pb.ActionResult.FromString(result),
        )
        self._one(self._put_result, request)

    def contents(self, wanted: Sequence[Blob], progress: Progress) -> dict[Blob, bytes]:
        assumed = self._batch
        try:
            return self._contents(wanted, progress)
        except RemoteError as error:
            if not is_status(error, grpc.StatusCode.INVALID_ARGUMENT):
                raise
            # Does it take less at once? Not asked before, as that is a round trip.
            self._check(self._timeout)
            if self._batch >= assumed:
                raise
        return self._contents(wanted, progress)

    def _contents(self, wanted: Sequence[Blob], progress: Progress) -> dict[Blob, bytes]:
        most = self._batch
        requests = [
            pb.BatchReadBlobsRequest(instance_name=self.instance, digests=list(map(digest_of, batch)))
            for batch in batches(wanted, most)
        ]
        streams = [
            (blob, self._started(blob)) for blob in wanted if most < blob.size <= MOST_CONTENT
        ]  # at once with the batches
        found = {}
        for answer in self._each(self._batch_read, requests, _WHOLE, progress):
            for response in answer.responses if answer else ():
                if response.status.code == _OK:
                    found[Blob(response.digest.hash, response.digest.size_bytes)] = bytes(response.data)
                elif is_of_server(response.status.code):
                    raise RemoteError(UNREACHABLE, f"it answers with status {response.status.code}")
                elif response.status.code != _NOT_FOUND:
                    found[Blob(response.digest.hash, response.digest.size_bytes)] = _UNREADABLE
        for blob, stream in streams:
            content = self._streamed(blob, stream, progress)
            if content is not None:
                found[blob] = content
        return found

    def _started(self, blob: Blob) -> Any:
        name = f"{self._prefix()}blobs/{blob.hash}/{blob.size}"
        return self._read(pb.ReadRequest(resource_name=name), timeout=_WHOLE, metadata=self.metadata)

    def _streamed(self, blob: Blob, stream: Any, progress: Progress) -> bytes | None:
        parts, size = [], 0
        try:
            for answer in stream:
                parts.append(bytes(answer.data))
                size += len(parts[-1])
                progress(len(parts[-1]))
                if size > blob.size:
                    stream.cancel()
                    break
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return None
            if error.code() is grpc.StatusCode.DATA_LOSS:
                return _UNREADABLE
            raise as_remote_error(error) from error
        return b"".join(parts)

    def lacking(self, contents: Iterable[Blob]) -> set[Blob]:
        self._check(_WHOLE)
        listed = list(contents)
        missing = set()
        for start in range(0, len(listed), _MANY):
            digests = list(map(digest_of, listed[start : start + _MANY]))
            request = pb.FindMissingBlobsRequest(instance_name=self.instance, blob_digests=digests)
            answer = self._one(self._missing, request)
            missing |= {Blob(digest.hash, digest.size_bytes) for digest in answer.missing_blob_digests}
        return missing

    def put_contents(self, contents: Iterable[tuple[Blob, bytes]]) -> None:
        self._check(_WHOLE)
        given, most = dict(contents), self._batch
        for batch in batches(list(given), most):
            request = pb.BatchUpdateBlobsRequest(instance_name=self.instance)
            for blob in batch:
                request.requests.add(digest=digest_of(blob), data=given[blob])
            for response in self._one(self._update, request).responses:
                if response.status.code != _OK:
                    kind = FULL if response.status.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0] else UNREACHABLE
                    raise RemoteError(kind, f"it rejected a content (status {response.status.code})")
        for blob, content in given.items():
            if blob.size > most:
                self._stream_up(blob, content)

    def _stream_up(self, blob: Blob, content: bytes) -> None:
        import uuid  # some milliseconds, which a build without large objects does not need

        name = f"{self._prefix()}uploads/{uuid.uuid4()}/blobs/{blob.hash}/{blob.size}"

        def pieces() -> Iterator[Any]:
            for start in range(0, len(content), _PIECE):
                last = start + _PIECE >= len(content)
                piece = content[start : start + _PIECE]
                yield pb.WriteRequest(resource_name=name, write_offset=start, finish_write=last, data=piece)

        try:
            stored = self._write(pieces(), timeout=_WHOLE, metadata=self.metadata).committed_size
        except grpc.RpcError as error:
            raise as_remote_error(error, sent=True) from error
        # The whole size also where the server had the content already (-1 is for compressed uploads alone).
        if stored != blob.size:
            raise RemoteError(UNREACHABLE, f"it took {stored} of {blob.size} bytes of a content")

    def stored_at(self, content: Blob) -> float | None:
        return None

    def capabilities(self, timeout: float = _WHOLE) -> Any:
        """Raises RemoteError, also where the server's digests are not those of `Blob`."""
        known = self._one(self._capabilities, pb.GetCapabilitiesRequest(instance_name=self.instance), timeout)
        functions = known.cache_capabilities.digest_functions
        if functions and _SHA256 not in functions:
            raise RemoteError(SETTINGS, "it does not support SHA-256 digests")
        self._batch = bound(known.cache_capabilities.max_batch_total_size_bytes)
        self._is_checked = True
        return known

    def _check(self, timeout: float) -> None:
        """Once, as a server keeps its digests and its bound. SHA-256 is assumed where it does not say, as older Bazel
        does."""
        if self._is_checked:
            return
        try:
            self.capabilities(timeout)
        except RemoteError as error:
            if not is_status(error, grpc.StatusCode.UNIMPLEMENTED):
                raise
            self._is_checked = True

    def describe(self) -> str:
        known = self.capabilities().cache_capabilities
        if not known.action_cache_update_capabilities.update_enabled:
            return "Remote Execution API; this user may not write to its action cache"
        return "Remote Execution API"

    def close(self) -> None:
        self.channel.close()

    def _prefix(self) -> str:
        return f"{self.instance}/" if self.instance else ""

    def _unary(self, method: str, answer: Any) -> Any:
        return self.channel.unary_unary(f"/{method}", serialized, answer.FromString)

    def _one(self, method: Any, request: Any, timeout: float = _WHOLE) -> Any:
        try:
            return method(request, timeout=timeout, metadata=self.metadata)
        except grpc.RpcError as error:
            raise as_remote_error(error, sent=method in (self._update, self._put_result)) from error

    def _each(self, method: Any, requests: Sequence[Any], timeout: float, progress: Progress) -> Iterator[Any]:
        """The answers to all of them, which go out at once; None for what is not there."""
        futures = [method.future(request, timeout=timeout, metadata=self.metadata) for request in requests]
        try:
            for future in futures:
                try:
                    answer = future.result()
                    progress(answer.ByteSize())
                    yield answer
                except grpc.RpcError as error:
                    if error.code() is not grpc.StatusCode.NOT_FOUND:
                        raise as_remote_error(error) from error
                    progress(0)
                    yield None
        finally:
            for future in futures:
                future.cancel()


def connect(address: Address, credentials: Credentials) -> Reapi:
    """Nothing is sent yet."""
    options = [
        ("grpc.max_receive_message_length", MOST_RESULT + (4 << 20)),
        ("grpc.max_reconnect_backoff_ms", 5000),
        ("grpc.enable_retries", 0),
        # Other channels of this process are other users' to the server.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    target = f"unix:{address.host}" if address.scheme == "unix" else address.host
    if address.scheme == "grpcs":
        parts = (credentials.authority or None, credentials.key or None, credentials.certificate or None)
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(*parts), options)
    else:
        channel = grpc.insecure_channel(target, options)
    return Reapi(channel, address.path, list(credentials.headers.items()), ANSWER * address.timeout)


def serialized(message: Any) -> bytes:
    return bytes(message.SerializeToString())


def digest_of(blob: Blob) -> Any:
    return pb.Digest(hash=blob.hash, size_bytes=blob.size)


def bound(said: int) -> int:
    """Of a server that says so."""
    return min(BATCH, said) if said > 0 else BATCH


def batches(blobs: Sequence[Blob], most: int) -> list[list[Blob]]:
    """Those that are no stream, of at most so many bytes each; a digest takes some, too."""
    found: list[list[Blob]] = []
    size = most
    for blob in blobs:
        if blob.size > most:
            continue
        if size + blob.size + _DIGEST > most:
            found.append([])
            size = 0
        found[-1].append(blob)
        size += blob.size + _DIGEST
    return found
