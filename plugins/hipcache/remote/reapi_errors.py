"""Statuses of grpc as errors of a remote."""

from __future__ import annotations

from typing import Any

import grpc

from hipcache.remote.backend import DENIED, FULL, UNREACHABLE, RemoteError

_KINDS: dict[Any, tuple[str, str]] = {
    grpc.StatusCode.UNAUTHENTICATED: (DENIED, "it denies access"),
    grpc.StatusCode.PERMISSION_DENIED: (DENIED, "it denies access"),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (FULL, "it accepts no more data"),
    grpc.StatusCode.DEADLINE_EXCEEDED: (UNREACHABLE, "it does not answer in time"),
}


def is_status(error: RemoteError, code: grpc.StatusCode) -> bool:
    """Did the server answer with it?"""
    cause = error.__cause__
    return isinstance(cause, grpc.RpcError) and cause.code() is code


def as_remote_error(error: Any) -> RemoteError:
    code = error.code()
    if code in _KINDS:
        return RemoteError(*_KINDS[code])
    details = str(error.details() or "").partition("\n")[0][:200]
    return RemoteError(UNREACHABLE, f"{code.name.lower().replace('_', ' ')}: {details}")
