"""Results by the key of an action.

A record is JSON: {"outputs": [hash, ...], "passing": [hash, ...], "text": str, "seconds": s}, in the order in which the
action names its outputs. A record with missing contents is a miss.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from hipcache.base.errors import StoreError
from hipcache.base.keys import digest_bytes
from hipcache.base.values import dataclass, field, replace
from hipcache.build import Action, ActionId, ActionResult, Bound, Digest, Missing, Ran
from hipcache.build.context import Context
from hipcache.build.storage import ActionCache, ContentStore, LocalActions, LocalContents
from hipcache.inputs.readset import ReadSet

if TYPE_CHECKING:
    from hipcache.build.storage import NotedActions

# Seconds: no work takes so long. JSON has numbers that are none: Infinity, NaN.
_MOST = 1e9


def duration(seconds: object) -> float:
    """Raises ValueError for what is none."""
    if not isinstance(seconds, (int, float)) or not 0 <= seconds < _MOST:
        raise ValueError("no duration")
    return float(seconds)


@dataclass(frozen=True)
class Shelf:
    """The place of results. `recache`: nothing is found; `refusal`: in words why nothing may be stored now (empty: it
    may); `note` takes in words what went wrong without harm."""

    actions: ActionCache
    contents: ContentStore
    note: Callable[[str], None]
    refusal: Callable[[], str] = lambda: ""
    recache: bool = False

    def records(self, keys: Sequence[str]) -> dict[str, bytes]:
        return {} if self.recache else self.actions.get(keys)

    def put(self, key: str, record: bytes) -> None:
        refusal = self.refusal()
        if refusal:
            self.note(f"not stored: {refusal}")
            return
        try:
            self.actions.put(key, record)
        except StoreError as error:
            self.note(f"not stored: {error.message}")

    def keep(self, content: bytes) -> Digest:
        """Store a content, if possible; return its digest in any case."""
        try:
            return self.contents.write(content)
        except StoreError as error:
            self.note(f"not stored: {error.message}")
            return Digest(digest_bytes(content), len(content))

    def result(self, action: Action, ran: Ran) -> ActionResult:
        """The result of a run. Its contents are stored, unless they must not be."""
        outputs = {}
        for name in action.stored:
            if name in ran.outputs:
                content = ran.outputs[name].read()
                outputs[name] = Digest(digest_bytes(content), len(content)) if ran.why_not else self.keep(content)
        return ActionResult(outputs, ran.text, ran.seconds, ran.named(action.passing))


@dataclass(frozen=True)
class ContentCache:
    shelf: Shelf

    def look_up(self, wanted: Sequence[Bound]) -> dict[ActionId, ActionResult | Missing]:
        """The stored results by action id: one request for all records, one for all contents."""
        keys = {bound.action.id: bound.key.digest for bound in wanted}
        records = self.shelf.records(list(keys.values())) if wanted else {}
        named = {
            bound.action.id: found
            for bound in wanted
            if (found := _unpack(bound.action, records.get(keys[bound.action.id])))
        }
        sizes = self.shelf.contents.sizes({hash for hashes, *_ in named.values() for hash in hashes.values()})
        return {
            id: ActionResult({name: Digest(hash, sizes[hash]) for name, hash in hashes.items()}, text, seconds, passing)
            for id, (hashes, passing, text, seconds) in named.items()
            if sizes.keys() >= set(hashes.values())
        }

    def publish(self, bound: Bound, ran: Ran) -> ActionResult:
        """Store the result, if that is allowed and possible."""
        result = self.shelf.result(bound.action, ran)
        if ran.why_not:
            self.shelf.note(f"not stored: {ran.why_not}")
        else:
            self.shelf.put(bound.key.digest, pack(bound.action, result))
        return result


def pack(action: Action, result: ActionResult) -> bytes:
    outputs = [result.outputs[name].hash for name in action.stored]
    passing = [result.passing[name] for name in action.passing]
    record = {"outputs": outputs, "passing": passing, "text": result.text, "seconds": result.seconds}
    return json.dumps(record, separators=(",", ":")).encode()


def _unpack(action: Action, record: bytes | None) -> tuple[Mapping[str, str], Mapping[str, str], str, float] | None:
    try:
        found = json.loads(record) if record else {}
        outputs = dict(zip(action.stored, map(str, found["outputs"]), strict=True))
        passing = dict(zip(action.passing, map(str, found["passing"]), strict=True))
        return outputs, passing, str(found["text"]), duration(found["seconds"])
    except (ValueError, TypeError, KeyError):
        return None


@dataclass(frozen=True)
class ReadSets:
    """The read sets of one compile: stored contents, each unpacked once."""

    shelf: Shelf
    _known: dict[str, ReadSet | None] = field(default_factory=dict)
    _kept: dict[int, tuple[ReadSet, str]] = field(default_factory=dict)

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
        """Stored once: after an edit most passes have the very same."""
        if id(reads) not in self._kept:
            self._kept[id(reads)] = reads, self.shelf.keep(reads.pack()).hash
        digest = self._kept[id(reads)][1]
        self._known[digest] = reads
        return digest


@dataclass
class Shelves:
    """The store as one compile reaches it: its results and read sets, and what of them a remote is told.

    `near`: the local store alone, of which no remote is told; `shelf`: the same with the records noted in `noted`
    that are put and asked for, where a remote is to have them; `reads`: read sets. `note`, `refusal`: as of `Shelf`;
    `serve` takes in words what was served from elsewhere."""

    context: Context
    note: Callable[[str], None]
    refusal: Callable[[], str]
    serve: Callable[[str], object]
    near: Shelf = field(init=False)
    shelf: Shelf = field(init=False)
    reads: ReadSets = field(init=False)
    noted: NotedActions | None = None

    def __post_init__(self) -> None:
        store, actions = self.context.store, LocalActions(self.context.store)
        self.near = self.shelf = Shelf(actions, LocalContents(store), self.note, self.refusal, self.context.recache)
        if self.context.remote:
            from hipcache.build.storage import NotedActions

            self.noted = NotedActions(actions)
            self.shelf = replace(self.near, actions=self.noted)
        self.reads = ReadSets(self.shelf)

    def queue(self) -> None:
        """Have sent to the remote what was put."""
        if self.context.remote and self.noted and self.noted.put_keys:
            self.context.remote().queue(list(self.noted.put_keys), list(self.noted.got_keys))
