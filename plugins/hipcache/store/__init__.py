"""The store: what every backend can do, and how an address becomes a backend.

Two name spaces, as in the Remote Execution API (github.com/bazelbuild/remote-apis): *actions* map the
key of a job to a small record, *blobs* hold content named by its own digest. A record names the
blobs that it needs. A record whose blob is gone is a miss, never an error.

Keys and digests are 64 lower-case hexadecimal digits (BLAKE3, 256 bits).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from hipcache.base.values import dataclass


@dataclass(frozen=True)
class StoreSize:
    """The size of the store: bytes on disk, number of entries, and the limit in bytes (0: no limit)."""

    bytes: int
    entries: int
    max_bytes: int


class Store(Protocol):
    """get, put, remove. Absent and damaged look the same: `None` or `False`, and damage is removed.

    Every `get` checks the content against its digest before anything is returned. `put` either
    stores the whole entry or raises `StoreError`; a reader never sees half of one. All methods may be
    called by any number of threads and processes at once. A key or digest that is none raises ValueError.
    """

    def get_action(self, key: str, *, own: bool = False) -> bytes | None:
        """`own`: only one that this user wrote with `own`, or root, and that nobody else can write to: for what names
        programs that are run."""
        ...

    def put_action(self, key: str, record: bytes, *, own: bool = False) -> None: ...

    def put_actions(self, records: Mapping[str, bytes]) -> None:
        """Several at once, which costs less. Each is stored or not; StoreError if one could not be."""
        ...

    def remove_action(self, key: str) -> None: ...

    def has_blob(self, digest: str) -> bool:
        """Is there a file of that name? Cheap; the content is not read (`get_blob` checks it)."""
        ...

    def blob_size(self, digest: str) -> int | None:
        """Its size, None if it is not there. As cheap."""
        ...

    def get_blob(self, digest: str) -> bytes | None: ...

    def put_blob(self, content: bytes) -> str:
        """Store `content` under its digest and return the digest. A blob that is there already is kept."""
        ...

    def put_blobs(self, contents: Iterable[bytes]) -> list[str]:
        """The same for several, as of `put_actions`: their digests, in that order."""
        ...

    def copy_blob(self, digest: str, destination: Path) -> bool:
        """Write the blob to `destination`, which appears whole (temporary file beside it, then rename), with
        permissions as a compiler would give (0o666 less umask), and never as a link into the store.

        As clang does, it replaces a symbolic link and writes into a special file (/dev/null, a FIFO).
        Raises StoreError if `destination` cannot be written."""
        ...

    def open_blob(self, digest: str, known: str = "") -> tuple[int, str] | None:
        """(a descriptor of the blob's file, to be read only and closed; the file's identity and times). None also where
        another user could write into the file, against which only a copy helps. `known`: the identity when it was last
        opened: if it still is that, the content is not checked again."""
        ...

    def pack(self) -> None:
        """A compile has ended: keep together what was put. Costs no entry, and raises nothing."""
        ...

    def lock(self, key: str, *, wait: bool = True) -> AbstractContextManager[bool | None]:
        """Hold `key` against all other threads and processes while they would do the same work.

        Gives True if another one held it first (so that the caller looks again before it works); None if another one
        holds it and `wait` is False: then the caller does not hold it.
        The kernel releases it when its process dies. Hold one key at a time: the kernel finds no deadlocks here."""
        ...

    def workdir(self) -> AbstractContextManager[Path]:
        """A fresh directory for the intermediate files of one compile, removed at the end; if this process
        is killed, a later one sweeps it. It may hold a file `.lock`, which is not the caller's."""
        ...

    def size(self) -> StoreSize: ...

    def collect(self, max_bytes: int | None = None) -> int:
        """Remove the least recently used entries until at most `max_bytes` (default: the limit) are held,
        sweep leftovers; returns the bytes freed. A `max_bytes` of 0 removes every entry."""
        ...

    def clear(self) -> int:
        """Remove every entry; returns the bytes freed. Safe while other processes compile."""
        ...
