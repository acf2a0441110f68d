"""Storage in three protocols. Each implementation (`local`, and one in memory for tests) passes the same contract
test.

Missing and damaged entries look the same, and damaged ones are removed when they are found. Any number of threads may
call all methods. A failed write raises StoreError.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from hipcache.model.contents import Digest


class ActionCache(Protocol):
    """Small records by key."""

    def get(self, keys: Iterable[str]) -> dict[str, bytes]:
        """The records of those keys that have one, in one request."""
        ...

    def put(self, key: str, record: bytes) -> None: ...


class ContentStore(Protocol):
    """Contents by hash."""

    def sizes(self, hashes: Iterable[str]) -> dict[str, int]:
        """The sizes of those contents that exist, in one request. They are not read, so `read` and `copy` may still
        find one damaged."""
        ...

    def read(self, hash: str) -> bytes | None: ...

    def write(self, content: bytes) -> Digest: ...

    def copy(self, hash: str, destination: Path) -> bool:
        """Write the content to `destination` atomically, as a compiler would have written it; False if it does not
        exist."""
        ...


class SingleFlight(Protocol):
    """Only one process at a time makes the result of a key."""

    def alone(self, key: str) -> AbstractContextManager[object]:
        """Wait until nobody else holds `key`, and hold it. Another process may have made the result since the caller's
        lookup, even without a wait, so the caller must look again."""
        ...
