"""The read sets of one compile: stored contents, each unpacked once."""

from __future__ import annotations

from hipcache.cache.content import Shelf
from hipcache.inputs.readset import ReadSet
from hipcache.values import dataclass, field


@dataclass(frozen=True)
class ReadSets:
    shelf: Shelf
    _known: dict[str, ReadSet | None] = field(default_factory=dict)

    def get(self, digest: str) -> ReadSet | None:
        """The read set, or None if the store does not have it."""
        if digest not in self._known:
            packed = self.shelf.contents.read(digest)
            try:
                self._known[digest] = ReadSet.unpack(packed) if packed else None
            except ValueError:
                self._known[digest] = None
        return self._known[digest]

    def keep(self, reads: ReadSet) -> str:
        digest = self.shelf.keep(reads.pack()).hash
        self._known[digest] = reads
        return digest
