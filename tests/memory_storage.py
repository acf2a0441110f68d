"""The three protocols of storage in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hipcache.base.files import write_whole
from hipcache.base.keys import digest_bytes
from hipcache.base.values import dataclass, field
from hipcache.build.action import Digest


@dataclass(frozen=True)
class MemoryActions:
    records: dict[str, bytes] = field(default_factory=dict)

    def get(self, keys: Iterable[str]) -> dict[str, bytes]:
        return {key: self.records[key] for key in keys if key in self.records}

    def put(self, key: str, record: bytes) -> None:
        self.records[key] = record


@dataclass(frozen=True)
class MemoryContents:
    """A content that does not match its name is dropped when it is read."""

    contents: dict[str, bytes] = field(default_factory=dict)

    def sizes(self, hashes: Iterable[str]) -> dict[str, int]:
        return {hash: len(self.contents[hash]) for hash in hashes if hash in self.contents}

    def read(self, hash: str) -> bytes | None:
        content = self.contents.get(hash)
        if content is not None and digest_bytes(content) != hash:
            self.contents.pop(hash, None)
            return None
        return content

    def write(self, content: bytes) -> Digest:
        hash = digest_bytes(content)
        self.contents[hash] = content
        return Digest(hash, len(content))

    def copy(self, hash: str, destination: Path) -> bool:
        content = self.read(hash)
        if content is not None:
            write_whole(destination, content)
        return content is not None


@dataclass(frozen=True)
class MemoryFlight:
    """A lock for each key that was ever held."""

    locks: dict[str, threading.Lock] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        with self.guard:
            lock = self.locks.setdefault(key, threading.Lock())
        with lock:
            yield
