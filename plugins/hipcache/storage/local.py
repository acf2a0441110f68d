"""The three protocols over the local store (`hipcache.store`)."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from hipcache.model.contents import Digest
from hipcache.store import Store
from hipcache.values import dataclass


@dataclass(frozen=True)
class LocalActions:
    store: Store

    def get(self, keys: Iterable[str]) -> dict[str, bytes]:
        found = {key: self.store.get_action(key) for key in keys}
        return {key: record for key, record in found.items() if record is not None}

    def put(self, key: str, record: bytes) -> None:
        self.store.put_action(key, record)


@dataclass(frozen=True)
class LocalContents:
    store: Store

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
    store: Store

    def alone(self, key: str) -> AbstractContextManager[object]:
        return self.store.lock(key)
