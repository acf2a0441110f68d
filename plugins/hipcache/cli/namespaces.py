"""`hipcache gc --namespace NAME`: which entries of a store are of no other namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

from hipcache.cache import references
from hipcache.patterns import pattern
from hipcache.store.layout import (
    ACTIONS,
    HEADER_BYTES,
    DamagedEntry,
    action_name,
    blob_name,
    unpack_action,
)
from hipcache.store.local import LocalStore
from hipcache.store.seal import Seal

_MOST = 1 << 28
_DIGEST = pattern(rb"[0-9a-f]{64}")


class AllBut:
    """Names of entries below `v2/`: all but these."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name not in self._names


class Eviction:
    """Of the records with a seal. `progress` is given the number of records that were read; `records`: how many have
    that seal, once `kept` was called."""

    def __init__(self, store: LocalStore, seal: Seal, progress: Callable[[int], object]) -> None:
        self._store, self._seal, self._progress = store, seal, progress
        self.records = 0

    def kept(self) -> AllBut:
        """All entries but these records, and the contents that no other record names. The history and what is known of
        tools belong to no namespace."""
        gone: set[str] = set()
        mine: set[str] = set()
        others: set[str] = set()
        for number, (name, content) in enumerate(_records(self._store), 1):
            self._progress(number)
            try:
                payload = unpack_action(name, content, self._seal)
            except DamagedEntry:  # of another namespace, or without one
                others.update(_named(content[HEADER_BYTES:]))
            else:
                gone.add(action_name(name))
                mine.update(_named(payload))
        self.records = len(gone)
        # Packs with such a record leave whole: what others have in them is a miss for these.
        gone |= {pack for pack, _, entries in self._store.packs() if not gone.isdisjoint(entries)}
        return AllBut(gone | set(map(blob_name, mine - others)))


def _records(store: LocalStore) -> Iterator[tuple[str, bytes]]:
    for name in store.names(ACTIONS):
        record = store.get_raw(name)
        if record is not None:
            yield name, record


def _named(payload: bytes) -> set[str]:
    """The contents that a record names, and perhaps other digests."""
    with suppress(ValueError):
        direct = references.direct_record(payload)
        return {*direct.lists, *(digest for _, digest in direct.outputs), *(digest for _, digest in direct.uses)}
    return {found.decode("ascii") for found in _DIGEST.findall(payload)}
