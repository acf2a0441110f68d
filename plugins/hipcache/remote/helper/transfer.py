"""What goes from a remote into the local store, and from there to a remote.

Fetching takes three round trips at most, for any number of keys: the results that are asked for; their contents, and
the results that commands have asked for behind them (`Envelope.next`); the contents of these. All of it is put into the
local store, contents before the records that name them. A content counts if it has both digests, the server's and
ours. What is damaged, too large or of an unknown kind is as absent, and counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from hipcache.base.errors import StoreError
from hipcache.base.keys import digest_bytes
from hipcache.base.values import dataclass, field, replace
from hipcache.cache import entries, records
from hipcache.cache.entries import Entry
from hipcache.remote import envelope, invocation
from hipcache.remote.backend import MOST_CONTENT, TOO_LARGE, Backend, Blob, Progress, RemoteError, blob_of
from hipcache.remote.envelope import MOST_NEXT, Damaged, Envelope
from hipcache.remote.invocation import Invocation, Manifest
from hipcache.remote.queue import Item
from hipcache.store.local import LocalStore
from hipcache.store.seal import Seal

# Seconds; bytes that a backlog holds at most.
_LATER = 2.0
MOST_HELD = 64 << 20


@dataclass
class Backlog:
    """What came with whole compiles and serves none of them: their manifests, and direct records as contents.

    A compile needs its direct record where it looks for that, and the contents that the record names. To write the rest
    takes about as long, on the processors that the hits of the build need. So it is written `later` seconds after, and
    the helper has it in memory until then. What a helper that was killed has not written is asked for again.
    """

    store: LocalStore
    later: float = _LATER
    _records: dict[str, bytes] = field(default_factory=dict)
    _contents: dict[str, bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _is_waiting: bool = False

    def keep(self, records: Mapping[str, bytes], contents: Mapping[str, bytes]) -> None:
        with self._lock:
            self._records |= records
            self._contents |= contents
            held = sum(map(len, (*self._records.values(), *self._contents.values())))
            starts = 0 < held <= MOST_HELD and not self._is_waiting
            self._is_waiting = self._is_waiting or starts
        if held > MOST_HELD:
            self.write()
        if starts:
            threading.Thread(target=self._run, daemon=True).start()

    def record(self, key: str) -> bytes | None:
        with self._lock:
            held = self._records.get(key)
        return self.store.get_action(key) if held is None else held

    def content(self, name: str) -> bytes | None:
        with self._lock:
            held = self._contents.get(name)
        return self.store.get_blob(name) if held is None else held

    def size(self, name: str) -> int | None:
        """Of a content."""
        with self._lock:
            held = self._contents.get(name)
        return self.store.blob_size(name) if held is None else len(held)

    def write(self) -> None:
        """Put all into the store, contents first. A record that has come there meanwhile is newer: a compile has added
        to it. A full disk is no fault."""
        with self._writing:
            with self._lock:
                records, contents = dict(self._records), dict(self._contents)
            with suppress(StoreError):
                self.store.put_blobs(contents.values())
                self.store.put_actions({key: records[key] for key in records if self.store.get_action(key) is None})
            with self._lock:
                # What has come meanwhile is still to be written.
                self._records = {key: record for key, record in self._records.items() if records.get(key) is not record}
                self._contents = {name: content for name, content in self._contents.items() if name not in contents}

    def _run(self) -> None:
        try:
            while True:
                time.sleep(self.later)
                self.write()
                with self._lock:
                    self._is_waiting = bool(self._records or self._contents)
                    if not self._is_waiting:
                        return
        except BaseException:
            with self._lock:
                self._is_waiting = False  # what is held is written with what comes next, or at the helper's end
            raise


@dataclass
class Arrivals:
    """`contents`: what came, by our digests; `behind`: who writes later what no compile needs. `useless`: how many
    records were of no known kind. A full disk is no fault: what could not be written is as absent."""

    store: LocalStore
    contents: Mapping[str, bytes]
    behind: Backlog | None = None
    useless: int = 0
    _stripped: dict[str, bytes] = field(default_factory=dict)

    def keep(self, those: Sequence[Envelope]) -> list[str]:
        """The keys of the records that are in the store now and say something new."""
        passes = {result.key: self._passes(result.record) for result in those if records.is_pass(result.record)}
        others = {result.key: invocation.outputs(result.record) for result in those if result.key not in passes}
        self.useless += sum(named is None for named in others.values())
        later = self._later(those) if self.behind else {}
        self._put(name for named in others.values() for name in named or () if name not in later)
        self._put(name for found in passes.values() for entry in found for name in records.blobs_of(entry))
        put, manifests = dict[str, bytes](), dict[str, bytes]()
        for result in those:
            named = others.get(result.key)
            if named is not None and self._are_there(name for name in named if name not in later):
                kept = manifests if self.behind and invocation.is_manifest(result.record) else put
                kept[result.key] = result.record
            elif result.key in passes:
                put |= self._merged(result.key, passes[result.key])
        if self.behind:
            self.behind.keep(manifests, later)
        with suppress(StoreError):
            self.store.put_actions(put)
            return [*put, *manifests]
        return list(manifests)

    def keep_contents(self, names: Iterable[str]) -> bool:
        """Are all of them in the store now?"""
        wanted = list(dict.fromkeys(names))
        self._put(wanted)
        return self._are_there(wanted)

    def _later(self, those: Sequence[Envelope]) -> dict[str, bytes]:
        """The direct records of manifests, which are put elsewhere for the compiles themselves."""
        manifests = [invocation.unpack(result.record) for result in those if invocation.is_manifest(result.record)]
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
        return records.moved(records.passes(record), self._read_set, self._strip)

    def _read_set(self, name: str) -> bytes | None:
        return self.contents.get(name) or self.store.get_blob(name)

    def _strip(self, packed: bytes) -> str:
        name = digest_bytes(packed)
        self._stripped[name] = packed
        return name

    def _merged(self, key: str, found: Sequence[Entry]) -> dict[str, bytes]:
        """The record with those of them whose contents are there; nothing where it is the one that was there."""
        whole = [entry for entry in found if self._are_there(records.blobs_of(entry))]
        old = entries.unpack(self.store.get_action(key)) if whole else []
        new = records.merged(whole, old)
        return {key: entries.pack(new)} if new != old else {}


# Bytes that one fetch, and one batch of an upload, hold in memory.
MOST_AT_ONCE = 512 << 20


@dataclass
class TransferCounts:
    """What a transfer came to. `hits`: results that were asked for and are in the local store now; `errors`: what was
    damaged or refused; `received`, `sent`: bytes; `uploads`: results."""

    hits: int = 0
    misses: int = 0
    errors: int = 0
    received: int = 0
    sent: int = 0
    uploads: int = 0
    found: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Transfer:
    """`compilers` takes the files of the programs that ran, which the local native program will have to know.
    `_damaged`: contents that came as others; a remote that looks at names and sizes alone says that it has them."""

    store: LocalStore
    backend: Backend
    seal: Seal
    compilers: Callable[[Sequence[str]], object] = bool
    _damaged: set[Blob] = field(default_factory=set)

    def fetch(self, keys: Sequence[str], progress: Progress, later: Backlog | None = None) -> TransferCounts:
        """`later`: who takes what is not written at once. Raises RemoteError."""
        tally, tally_behind = TransferCounts(), TransferCounts()
        asked = self._results(keys, tally, progress)
        self._read_compilers(asked.values())
        following = dict.fromkeys(key for result in asked.values() for key in result.next if key not in asked)
        behind = [key for key in following if self.store.get_action(key) is None][:MOST_NEXT]
        with ThreadPoolExecutor(1, "behind") as beside:
            others = beside.submit(self._results, behind, tally_behind, progress)
            contents = self._contents(asked.values(), {}, tally, progress)
            more = others.result()
        tally.received += tally_behind.received
        tally.errors += tally_behind.errors
        contents = self._contents(more.values(), contents, tally, progress)
        keeping = Arrivals(self.store, contents, later)
        tally.found += keeping.keep([*more.values(), *asked.values()])
        tally.errors += keeping.useless
        tally.hits = sum(key in asked for key in tally.found)
        tally.misses = len(keys) - tally.hits
        return tally

    def fetch_manifests(self, keys: Sequence[str], progress: Progress) -> TransferCounts:
        """Invocation manifests without their contents, in one round trip. Raises RemoteError."""
        tally = TransferCounts()
        found = {result.key: result.record for result in self._results(keys, tally, progress).values()}
        named = {key: record for key, record in found.items() if invocation.is_manifest(record)}
        with suppress(StoreError):
            self.store.put_actions(named)
            tally.found += named
        tally.hits, tally.misses = len(tally.found), len(keys) - len(tally.found)
        return tally

    def fetch_invocation(
        self, key: str, choose: Callable[[Manifest], Invocation | None], progress: Progress
    ) -> tuple[Invocation | None, TransferCounts]:
        """The whole compile that is chosen of the manifest under that key, and its contents in the local store: in two
        round trips. Raises RemoteError."""
        tally = TransferCounts(misses=1)
        asked = self._results([key], tally, progress).get(key)
        known = choose(invocation.unpack(asked.record)) if asked else None
        if not (asked and known):
            return None, tally
        self.compilers(known.tools)
        contents = self._contents([asked], {}, tally, progress, known.contents)
        if not Arrivals(self.store, contents).keep_contents(known.contents):
            return None, tally
        tally.hits, tally.misses = 1, 0
        return known, tally

    def _read_compilers(self, those: Iterable[Envelope]) -> None:
        """Of the first manifest: a build has one compiler as a rule."""
        manifests = (invocation.unpack(result.record) for result in those if invocation.is_manifest(result.record))
        for known in next(manifests, Manifest()).invocations[:1]:
            self.compilers(known.tools)

    def _results(self, keys: Sequence[str], tally: TransferCounts, progress: Progress) -> dict[str, Envelope]:
        actions = {envelope.action_of(key, self.seal): key for key in keys}
        found = {}
        for action, raw in self.backend.results(list(actions), progress).items() if actions else ():
            tally.received += len(raw)
            try:
                found[actions[action]] = envelope.unpack(actions[action], raw, self.seal)
            except Damaged:
                tally.errors += 1
        return found

    def _contents(
        self,
        those: Iterable[Envelope],
        known: Mapping[str, bytes],
        tally: TransferCounts,
        progress: Progress,
        names: Sequence[str] | None = None,
    ) -> dict[str, bytes]:
        """Those that the records need (or of these, those with such names) and the local store lacks, by our digest;
        with those that are known."""
        wanted: dict[Blob, str] = {}
        size = 0
        for result in those:
            for name in needed(result.record) if names is None else names:
                blob = result.contents.get(name)
                if blob and name not in known and not self.store.has_blob(name) and blob not in wanted:
                    size += blob.size
                    if size <= MOST_AT_ONCE:
                        wanted[blob] = name
        found = dict(known)
        for blob, content in self.backend.contents(list(wanted), progress).items() if wanted else ():
            tally.received += len(content)
            if blob_of(content) == blob and digest_bytes(content) == wanted.get(blob):
                found[wanted[blob]] = content
            else:
                tally.errors += 1
                if blob in wanted:
                    self._damaged.add(blob)
        return found

    # To the remote

    def upload(self, items: Sequence[Item], progress: Progress) -> TransferCounts:
        """Raises RemoteError; then nothing of it may be taken for uploaded."""
        tally = TransferCounts()
        parcel = _Parcel(self.store)
        following = {key: item.next for item in items for key in item.keys}
        lists = [key for key in following if parcel.is_list(key)]
        theirs = self._results(lists, TransferCounts(), progress)
        for key, behind in following.items():
            known = theirs.get(key)
            record = parcel.record(key, known or Envelope(key, b"", {}))
            if record is not None:
                first = [other for other in behind if other != key and self.store.get_action(other) is not None]
                more = tuple(dict.fromkeys([*first, *(known.next if known else ())]))[:MOST_NEXT]
                named = {name: parcel.blobs[name] for name in needed(record)}
                parcel.envelopes.append(Envelope(key, record, named, more if records.is_pass(record) else ()))
        lacking = self._lacking(parcel.here, anew=any(item.anew for item in items))
        refused: set[Blob] = set()
        for batch in _batches([blob for blob in parcel.here if blob in lacking]):
            refused.update(self._put(batch, parcel.here))
            self._damaged.difference_update(batch)
            tally.sent += sum(blob.size for blob in batch if blob not in refused)
            progress(0)
        tally.errors = len(refused)
        for sealed in parcel.envelopes:
            if refused.intersection(sealed.contents.values()):
                continue
            raw = envelope.pack(sealed, self.seal)
            self.backend.put_result(envelope.action_of(sealed.key, self.seal), raw)
            tally.sent += len(raw)
            tally.uploads += 1
            progress(0)
        return tally

    def _lacking(self, here: Mapping[Blob, bytes], *, anew: bool) -> set[Blob]:
        """What the remote is to get of these; all of them where the user replaces what is stored (RECACHE)."""
        if anew or not here:
            return set(here)
        return self.backend.lacking(here) | {blob for blob in here if blob in self._damaged}

    def _put(self, batch: Sequence[Blob], contents: Mapping[Blob, bytes]) -> list[Blob]:
        """Those that are too large for the remote. Raises RemoteError."""
        try:
            self.backend.put_contents((blob, contents[blob]) for blob in batch)
        except RemoteError as error:
            if error.kind != TOO_LARGE:
                raise
            return [*batch] if len(batch) == 1 else [stored for blob in batch for stored in self._put([blob], contents)]
        return []


@dataclass
class _Parcel:
    """What is to be uploaded. `blobs`: the server's digests, by ours; `here`: the contents that this store has."""

    store: LocalStore
    blobs: dict[str, Blob] = field(default_factory=dict)
    here: dict[Blob, bytes] = field(default_factory=dict)
    envelopes: list[Envelope] = field(default_factory=list)

    def is_list(self, key: str) -> bool:
        """Is its record merged with the one that is there?"""
        record = self.store.get_action(key) or b""
        return records.is_pass(record) or invocation.is_manifest(record)

    def record(self, key: str, known: Envelope) -> bytes | None:
        """The record as it travels, with the entries of the one that the remote has already."""
        record = self.store.get_action(key)
        if record is None:
            return None
        if invocation.is_manifest(record):
            return self._manifest(invocation.unpack(record), invocation.unpack(known.record), known.contents)
        if not records.is_pass(record):
            named = invocation.outputs(record)
            return record if named is not None and all(self._take(name) for name in named) else None
        others, theirs = (records.passes(known.record) if known.record else []), known.contents
        own = [entry for entry in records.passes(record) if all(self._take(name) for name in entry.outputs if name)]
        moved = records.moved(own, self.store.get_blob, self._add)
        served = [entry for entry in others if all(name in theirs for name in records.blobs_of(entry))]
        both = records.merged(moved, served)[: records.MOST_ENTRIES]
        for name in (name for entry in both for name in records.blobs_of(entry)):
            self.blobs.setdefault(name, theirs[name] if name in theirs else self.blobs[name])
        return entries.pack(both) if moved else None

    def _manifest(self, mine: Manifest, known: Manifest, theirs: Mapping[str, Blob]) -> bytes | None:
        own = tuple(invoked for invoked in mine.invocations if all(map(self._take, invoked.contents)))
        others = tuple(invoked for invoked in known.invocations if all(name in theirs for name in invoked.contents))
        both = invocation.merged(replace(mine, invocations=own), replace(known, invocations=others))
        for name in (name for invoked in both.invocations for name in invoked.contents):
            self.blobs.setdefault(name, theirs[name] if name in theirs else self.blobs[name])
        return both.pack() if own else None

    def _take(self, name: str) -> bool:
        if name not in self.blobs:
            with suppress(ValueError):
                content = self.store.get_blob(name)
                if content is not None and len(content) <= MOST_CONTENT:
                    self._add(content)
        return name in self.blobs

    def _add(self, content: bytes) -> str:
        name, blob = digest_bytes(content), blob_of(content)
        self.blobs[name] = blob
        self.here[blob] = content
        return name


def needed(record: bytes) -> list[str]:
    """The contents that a record names, and that travel with it."""
    if records.is_pass(record):
        return [name for entry in records.passes(record) for name in records.blobs_of(entry)]
    return invocation.outputs(record) or []


def _batches(blobs: Sequence[Blob], most: int = 64 << 20) -> list[list[Blob]]:
    batches: list[list[Blob]] = []
    size = most
    for blob in blobs:
        if size + blob.size > most:
            batches.append([])
            size = 0
        batches[-1].append(blob)
        size += blob.size
    return batches
