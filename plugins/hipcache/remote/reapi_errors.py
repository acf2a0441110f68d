"""Statuses of grpc as errors of a remote."""

from __future__ import annotations

from typing import Any

import grpc

from hipcache.remote.backend import DENIED, FULL, LIMITED, UNREACHABLE, RemoteError

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
_MOST = 120
_NOT_GRPC = "Received http2 header with status"  # the library's, too; with code INTERNAL for status 400
_INSTANCE = "correct the instance: in the address, all that follows HOST:PORT/"
_NOT_OFFERED = "it does not offer all calls of the Remote Execution API"


def is_status(error: RemoteError, code: grpc.StatusCode) -> bool:
    """Did the server answer with it?"""
    cause = error.__cause__
    return isinstance(cause, grpc.RpcError) and cause.code() is code


def is_of_server(code: int) -> bool:
    return code in [one.value[0] for one in _OF_SERVER]


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
        return RemoteError(UNREACHABLE, f"{_NOT_OFFERED}: {details[:_MOST]}")
    if code is grpc.StatusCode.INVALID_ARGUMENT and "instance" in details.lower():
        return RemoteError(UNREACHABLE, f"it rejects the instance of the address: {details[:_MOST]}", _INSTANCE)
    return RemoteError(UNREACHABLE, f"{code.name.lower().replace('_', ' ')}: {details[:_MOST]}")
