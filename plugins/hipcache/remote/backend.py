"""What each protocol of a remote can do: results by the digest of an action, contents by their own.

Each method goes out once for all that it is asked (as the protocol allows: in one batch, or many at once), and raises
RemoteError where the remote is at fault. Nothing that comes back is checked here, but for its size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

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
# Of an address's timeout: until a connection stands, and until an answer without content is there.
CONNECT, ANSWER = 0.7, 0.8


class RemoteError(Exception):
    """`kind`: see above; `message`: may have words of the server, of which none acts on a terminal; `hint`: what to do,
    where more is known than the kind says."""

    def __init__(self, kind: str, message: str, hint: str = "") -> None:
        super().__init__("".join(one if one.isprintable() else " " for one in message))
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
