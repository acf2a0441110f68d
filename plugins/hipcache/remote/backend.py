"""What each protocol of a remote can do (results by the digest of an action, contents by their own), what it shows, and
the connection to one.

Each method goes out once for all that it is asked (as the protocol allows: in one batch, or many at once), and raises
RemoteError where the remote is at fault. Nothing that comes back is checked here, but for its size.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import NamedTuple, Protocol

from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass, field
from hipcache.remote import address
from hipcache.remote.address import Address

# Kinds of errors.
UNREACHABLE, DENIED, FULL, GARBAGE, SETTINGS = "unreachable", "denied", "full", "garbage", "settings"
TOO_LARGE = "too large"
# In words, of a server whose limit is one of time, not of space.
LIMITED = "it limits how many requests it takes"
# Of executors: the workers have another program; a command ended otherwise than with 0.
TOOLCHAIN, STATUS = "toolchain", "status"
# Bytes of a result, and of a content, that are taken from a remote or given to it. No object file is larger that
# would be worth it.
MOST_RESULT, MOST_CONTENT = 4 << 20, 256 << 20
# Seconds for connections that begin while the helper is loaded.
PATIENCE = 0.3
# Of an address's timeout: until a connection stands, and until an answer without content is there.
CONNECT, ANSWER = 0.7, 0.8


class RemoteError(Exception):
    """`kind`: see above; `message`: may have words of the server, of which none acts on a terminal; `hint`: what to do,
    where more is known than the kind says."""

    def __init__(self, kind: str, message: str, hint: str = "") -> None:
        super().__init__("".join(char if char.isprintable() else " " for char in message))
        self.kind = kind
        self.hint = hint


class Blob(NamedTuple):
    """The digest of a content as the remote has it: SHA-256 in hexadecimal, and bytes."""

    hash: str
    size: int


def blob_of(content: bytes) -> Blob:
    return Blob(hashlib.sha256(content).hexdigest(), len(content))


# Is told of the bytes that came with each answer: the remote is alive.
Progress = Callable[[int], object]


class Backend(Protocol):
    """One remote. Any number of threads may use it at once."""

    def begin(self) -> None:
        """Connect, and do not wait for it."""
        ...

    def results(self, actions: Sequence[Blob], progress: Progress) -> dict[Blob, bytes]:
        """Serialized ActionResults, of those actions that there is one for."""
        ...

    def put_result(self, action: Blob, result: bytes) -> None: ...

    def contents(self, wanted: Sequence[Blob], progress: Progress) -> dict[Blob, bytes]:
        """Those that are there. A content may be another one than its name says, also where the server has it, but
        cannot read it."""
        ...

    def lacking(self, contents: Iterable[Blob]) -> set[Blob]: ...

    def put_contents(self, contents: Iterable[tuple[Blob, bytes]]) -> None: ...

    def stored_at(self, content: Blob) -> float | None:
        """When that content was put there last, in seconds of the epoch by the server's clock; None where the protocol
        does not tell."""
        ...

    def describe(self) -> str:
        """What the server says of itself, for `hipcache doctor`."""
        ...

    def close(self) -> None: ...


_MOST_FILE = 1 << 20
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


def read_credentials(address: Address) -> Credentials:
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
            content = file.read(_MOST_FILE)
    except OSError as error:
        raise RemoteError(SETTINGS, f"cannot read '{path}' ({option}): {error.strerror}", _HINT) from error
    if not content.strip():
        raise RemoteError(SETTINGS, f"'{path}' ({option}) is empty", _HINT)
    return content


@dataclass
class Begun:
    """By the address's text: a protocol that is loaded, with a connection that is being made."""

    backends: dict[str, Backend] = field(default_factory=dict)
    _thread: threading.Thread | None = None

    def wait(self) -> None:
        if self._thread:
            self._thread.join()


def begin(remotes: Sequence[str]) -> Begun:
    """Connect to remotes before the rest of the storage helper is loaded: that takes as long as a server takes to
    answer. What is wrong with one shows again when it is opened.

    The library of a protocol is the larger part of what the helper loads, and a connection is made without Python. So
    it comes first; but nobody waits longer than PATIENCE for it, since who asks the helper wants a sign of life."""
    begun = Begun()

    def run() -> None:
        for text in remotes:
            try:
                connected = connect(address.parse(text))
                connected.begin()
            except Exception:
                continue
            begun.backends[text] = connected

    thread = threading.Thread(target=run, daemon=True)
    begun._thread = thread
    thread.start()
    thread.join(PATIENCE)
    return begun


def connect(found: Address) -> Backend:
    """Raises RemoteError."""
    shown = read_credentials(found)
    connected: Backend = import_module(address.LIBRARIES[found.scheme].module).connect(found, shown)
    return connected
