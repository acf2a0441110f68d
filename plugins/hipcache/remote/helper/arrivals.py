"""Puts what came from a remote into the local store: all contents at once, then the records that have theirs.

Of manifests, what serves no compile may be left to `Behind`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from hipcache.cache import entries, exchange
from hipcache.cache.entries import Entry
from hipcache.errors import StoreError
from hipcache.remote import invocation
from hipcache.remote.envelope import Envelope
from hipcache.remote.helper.backlog import Behind
from hipcache.store import Store
from hipcache.values import dataclass, field


@dataclass
class Keeping:
    """`contents`: what came, by our digests; `behind`: who writes later what no compile needs. `useless`: how many
    records were of no known kind. A full disk is no fault: what could not be written is as absent."""

    store: Store
    contents: Mapping[str, bytes]
    behind: Behind | None = None
    useless: int = 0
    _stripped: dict[str, bytes] = field(default_factory=dict)

    def keep(self, those: Sequence[Envelope]) -> list[str]:
        """The keys of the records that are in the store now and say something new."""
        passes = {one.key: self._passes(one.record) for one in those if exchange.is_pass(one.record)}
        others = {one.key: invocation.outputs(one.record) for one in those if one.key not in passes}
        self.useless += sum(named is None for named in others.values())
        later = self._later(those) if self.behind else {}
        self._put(name for named in others.values() for name in named or () if name not in later)
        self._put(name for found in passes.values() for entry in found for name in exchange.needs(entry))
        records, manifests = dict[str, bytes](), dict[str, bytes]()
        for one in those:
            named = others.get(one.key)
            if named is not None and self._are_there(name for name in named if name not in later):
                kept = manifests if self.behind and invocation.is_manifest(one.record) else records
                kept[one.key] = one.record
            elif one.key in passes:
                records |= self._merged(one.key, passes[one.key])
        if self.behind:
            self.behind.keep(manifests, later)
        with suppress(StoreError):
            self.store.put_actions(records)
            return [*records, *manifests]
        return list(manifests)

    def keep_contents(self, names: Iterable[str]) -> bool:
        """Are all of them in the store now?"""
        wanted = list(dict.fromkeys(names))
        self._put(wanted)
        return self._are_there(wanted)

    def _later(self, those: Sequence[Envelope]) -> dict[str, bytes]:
        """The direct records of manifests, which are put elsewhere for the compiles themselves."""
        manifests = [invocation.unpack(one.record) for one in those if invocation.is_manifest(one.record)]
        names = {known.record for manifest in manifests for known in manifest.invocations}
        needed = {name for manifest in manifests for known in manifest.invocations for name in known.needs}
        return {name: self.contents[name] for name in names - needed if name in self.contents}

    def _put(self, names: Iterable[str]) -> None:
        come = [self._stripped.get(name) or self.contents.get(name) for name in dict.fromkeys(names)]
        with suppress(StoreError):
            self.store.put_blobs(content for content in come if content is not None)

    def _are_there(self, names: Iterable[str]) -> bool:
        with suppress(ValueError):  # one of them is no digest
            return all(map(self.store.has_blob, names))
        return False

    def _passes(self, record: bytes) -> list[Entry]:
        """Its entries, with read sets as they are kept here, of which nothing is written yet."""
        return exchange.moved(exchange.passes(record), self._read_set, self._strip)

    def _read_set(self, name: str) -> bytes | None:
        return self.contents.get(name) or self.store.get_blob(name)

    def _strip(self, packed: bytes) -> str:
        name = exchange.hash_of(packed)
        self._stripped[name] = packed
        return name

    def _merged(self, key: str, found: Sequence[Entry]) -> dict[str, bytes]:
        """The record with those of them whose contents are there; nothing where it is the one that was there."""
        whole = [entry for entry in found if self._are_there(exchange.needs(entry))]
        old = entries.unpack(self.store.get_action(key)) if whole else []
        new = exchange.merged(whole, old)
        return {key: exchange.pack(new)} if new != old else {}
