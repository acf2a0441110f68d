"""Storage in four protocols. Each implementation (`local`, `memory`, `tiered`) passes the same contract test.

Absent and damaged look the same, and damage is removed where it is found. All methods may be called by any number of
threads. What cannot be written raises StoreError.
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
        """The records of those keys that there is one for: all of them in one question."""
        ...

    def put(self, key: str, record: bytes) -> None: ...


class ContentStore(Protocol):
    """Contents by hash."""

    def sizes(self, hashes: Iterable[str]) -> dict[str, int]:
        """The sizes of those contents that are there, in one question. They are not read: `read` and `copy` may still
        find one damaged."""
        ...

    def read(self, hash: str) -> bytes | None: ...

    def write(self, content: bytes) -> Digest: ...

    def copy(self, hash: str, destination: Path) -> bool:
        """Write the content to `destination`, which appears whole, as a compiler would have written it; False where it
        is not there."""
        ...


class SingleFlight(Protocol):
    """One at a time does the work of a key."""

    def alone(self, key: str) -> AbstractContextManager[object]:
        """Wait until nobody else holds `key`, and hold it. Another one may have done the work since the caller has
        looked, also without a wait: so the caller looks again."""
        ...


class Scratch(Protocol):
    """Directories for what is not finished."""

    def directory(self) -> AbstractContextManager[Path]:
        """A fresh private directory, removed at the end."""
        ...
