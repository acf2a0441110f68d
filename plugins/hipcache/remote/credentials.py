"""What a remote is to be shown: from the files that its address names. Nothing of it is ever printed."""

from __future__ import annotations

import os

from hipcache.patterns import pattern
from hipcache.remote.address import Address
from hipcache.remote.backend import SETTINGS, RemoteError
from hipcache.values import dataclass, field

_MOST = 1 << 20
# Of a header, as gRPC and HTTP have it.
_NAME = pattern(r"[A-Za-z0-9_.-]+")
_HINT = "correct the file, or its name in the address"


@dataclass(frozen=True)
class Credentials:
    """`headers` of each request; PEM: `authority` whom to trust, `certificate` and `key` of our own."""

    headers: dict[str, str] = field(default_factory=dict)
    authority: bytes = b""
    certificate: bytes = b""
    key: bytes = b""


def read(address: Address) -> Credentials:
    """Raises RemoteError."""
    headers = {}
    if "header-file" in address.files:
        for line in _text(address, "header-file").splitlines():
            name, colon, value = line.partition(":")
            if line.strip() and not (colon and _NAME.fullmatch(name.strip())):
                raise RemoteError(
                    SETTINGS, f"'{address.files['header-file']}' has a line that is not 'Name: value'", _HINT
                )
            if colon:
                headers[name.strip().lower()] = value.strip()
    if "token-file" in address.files:
        headers["authorization"] = f"Bearer {_text(address, 'token-file').strip()}"
    if any("\n" in value or not value.isprintable() for value in headers.values()):
        raise RemoteError(SETTINGS, "the token or a header contains characters that cannot be sent", _HINT)
    return Credentials(
        headers, _content(address, "ca-file"), _content(address, "cert-file"), _content(address, "key-file")
    )


def _text(address: Address, option: str) -> str:
    try:
        return _content(address, option).decode("ascii")
    except UnicodeDecodeError as error:
        raise RemoteError(SETTINGS, f"'{address.files[option]}' is not plain text", _HINT) from error


def _content(address: Address, option: str) -> bytes:
    path = address.files.get(option)
    if not path:
        return b""
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe may never say anything
        raise RemoteError(SETTINGS, f"'{path}' ({option}) is not a file", _HINT)
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST)
    except OSError as error:
        raise RemoteError(SETTINGS, f"cannot read '{path}' ({option}): {error.strerror}", _HINT) from error
    if not content.strip():
        raise RemoteError(SETTINGS, f"'{path}' ({option}) is empty", _HINT)
    return content
