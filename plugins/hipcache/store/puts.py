"""Puts entries into a local store: those that the limit allows, in portions, and then does the upkeep that is due."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from hipcache.disk.confined import MOST_BLOB
from hipcache.store.entries import Entries
from hipcache.store.faults import as_store_error
from hipcache.store.layout import charge
from hipcache.store.upkeep import Upkeep
from hipcache.values import dataclass

# Entries that are put together: each is an open file until then, and others wait for the ledger while they are renamed.
_PORTION = 64


@dataclass(frozen=True)
class Puts:
    """`max_bytes`: the limit, or 0."""

    entries: Entries
    upkeep: Upkeep
    max_bytes: int

    def put(self, name: str, content: bytes, *, own: bool = False) -> None:
        """Write an entry, then do the upkeep that is due. Raises StoreError."""
        self.put_all({name: content}, own=own)

    def put_all(self, those: Mapping[str, bytes], *, own: bool = False) -> None:
        """The same for any number of them. What is too large for the store is not kept, nor what it had there."""
        names = [name for name, content in those.items() if self._is_kept(name, content)]
        for start in range(0, len(names), _PORTION):
            self._put({name: those[name] for name in names[start : start + _PORTION]}, own=own)

    def _is_kept(self, name: str, content: bytes) -> bool:
        if 0 < self.max_bytes < charge(name, len(content)) or len(content) > MOST_BLOB:
            with suppress(OSError):
                self.entries.remove(name)
            return False
        return True

    def _put(self, portion: Mapping[str, bytes], *, own: bool) -> None:
        with as_store_error("store", self.entries.confined.path(next(iter(portion)))):
            book = self.entries.put(portion, own=own)
        if self.upkeep.is_due(book, self.max_bytes):
            with suppress(OSError):
                self.upkeep.run(self.max_bytes)
