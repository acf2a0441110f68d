"""Two tiers: ask the near one first, then the far one for everything that the near one lacks, in one request.

Results of the far tier are copied to the near one. Writes go to both, first to the near one. The contents of a record
may be in either tier, so both are asked for contents, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from hipcache.errors import StoreError
from hipcache.model.contents import Digest
from hipcache.storage import ActionCache, ContentStore
from hipcache.values import dataclass


@dataclass(frozen=True)
class TieredActions:
    near: ActionCache
    far: ActionCache

    def get(self, keys: Iterable[str]) -> dict[str, bytes]:
        wanted = list(keys)
        found = self.near.get(wanted)
        missing = [key for key in wanted if key not in found]
        fetched = self.far.get(missing) if missing else {}
        for key, record in fetched.items():
            with suppress(StoreError):
                self.near.put(key, record)
        return found | fetched

    def put(self, key: str, record: bytes) -> None:
        self.near.put(key, record)
        self.far.put(key, record)


@dataclass(frozen=True)
class TieredContents:
    near: ContentStore
    far: ContentStore

    def sizes(self, hashes: Iterable[str]) -> dict[str, int]:
        wanted = list(hashes)
        found = self.near.sizes(wanted)
        missing = [hash for hash in wanted if hash not in found]
        return found | (self.far.sizes(missing) if missing else {})

    def read(self, hash: str) -> bytes | None:
        content = self.near.read(hash)
        if content is None:
            content = self.far.read(hash)
            if content is not None:
                with suppress(StoreError):
                    self.near.write(content)
        return content

    def write(self, content: bytes) -> Digest:
        digest = self.near.write(content)
        self.far.write(content)
        return digest

    def copy(self, hash: str, destination: Path) -> bool:
        if self.near.copy(hash, destination):
            return True
        # Once it is read it lies near, if there is room: the far tier is asked for it once.
        return self.read(hash) is not None and (self.near.copy(hash, destination) or self.far.copy(hash, destination))
