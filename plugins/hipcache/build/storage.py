"""Storage in three protocols, and their implementations over the local store. Each one (and that in memory for tests)
passes the same contract test.

Missing and damaged entries look the same, and damaged ones are removed when they are found. Any number of threads may
call all methods. A failed write raises StoreError.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from hipcache.base.values import dataclass, field
from hipcache.build.action import Digest
from hipcache.store.local import LocalStore


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


@dataclass(frozen=True)
class LocalActions:
    store: LocalStore

    def get(self, keys: Iterable[str]) -> dict[str, bytes]:
        found = {key: self.store.get_action(key) for key in keys}
        return {key: record for key, record in found.items() if record is not None}

    def put(self, key: str, record: bytes) -> None:
        self.store.put_action(key, record)


@dataclass(frozen=True)
class LocalContents:
    store: LocalStore

    def sizes(self, hashes: Iterable[str]) -> dict[str, int]:
        found = {hash: self.store.blob_size(hash) for hash in hashes}
        return {hash: size for hash, size in found.items() if size is not None}

    def read(self, hash: str) -> bytes | None:
        return self.store.get_blob(hash)

    def write(self, content: bytes) -> Digest:
        return Digest(self.store.put_blob(content), len(content))

    def copy(self, hash: str, destination: Path) -> bool:
        return self.store.copy_blob(hash, destination)


@dataclass(frozen=True)
class LocalFlight:
    store: LocalStore

    def alone(self, key: str) -> AbstractContextManager[object]:
        return self.store.lock(key)


@dataclass(frozen=True)
class NotedActions:
    """An action cache that notes what it is asked for and what is put into it: so that it can be looked for elsewhere,
    and sent there. `put_keys`: of the records that were put, `got_keys`: all that were asked for; both in that order,
    once each."""

    near: ActionCache
    put_keys: dict[str, None] = field(default_factory=dict)
    got_keys: dict[str, None] = field(default_factory=dict)
    _of_thread: threading.local = field(default_factory=threading.local)

    def get(self, keys: Iterable[str]) -> dict[str, bytes]:
        wanted = list(keys)
        found = self.near.get(wanted)
        self.got_keys.update(dict.fromkeys(wanted))
        noted = getattr(self._of_thread, "noted", None)
        if noted is not None:
            noted.update({key: found.get(key) for key in wanted})
        return found

    def put(self, key: str, record: bytes) -> None:
        self.near.put(key, record)
        self.put_keys[key] = None

    @contextmanager
    def noting(self) -> Iterator[dict[str, bytes | None]]:
        """The keys that this thread asks for meanwhile, and the records that it gets."""
        noted: dict[str, bytes | None] = {}
        self._of_thread.noted = noted
        try:
            yield noted
        finally:
            self._of_thread.noted = None
