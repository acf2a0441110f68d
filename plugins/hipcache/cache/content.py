"""Results by the digest of all that an action is made from.

A record is JSON: {OUTPUT: hash, ..., "text": str, "seconds": s}, with the name of each output. One whose contents are
not all there is a miss.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from hipcache.errors import StoreError
from hipcache.inputs.keys import digest_bytes
from hipcache.model.action import Action, ActionResult, Bound
from hipcache.model.contents import Digest, Ran
from hipcache.storage import ActionCache, ContentStore
from hipcache.values import dataclass


@dataclass(frozen=True)
class ContentCache:
    """`recache`: nothing is found; `refusal`: in words why nothing may be stored now (empty: it may); `note` takes in
    words what went wrong without harm."""

    actions: ActionCache
    contents: ContentStore
    note: Callable[[str], None]
    refusal: Callable[[], str] = lambda: ""
    recache: bool = False

    def look_up(self, wanted: Sequence[Bound]) -> dict[str, ActionResult]:
        """The results that are there, by the action: one question for all records, one for all contents."""
        if self.recache or not wanted:
            return {}
        keys = {bound.action.id: bound.key.digest for bound in wanted}
        records = self.actions.get(keys.values())
        named = {
            bound.action.id: found
            for bound in wanted
            if (found := _unpack(bound.action, records.get(keys[bound.action.id])))
        }
        sizes = self.contents.sizes({hash for hashes, *_ in named.values() for hash in hashes.values()})
        return {
            id: ActionResult({name: Digest(hash, sizes[hash]) for name, hash in hashes.items()}, text, seconds)
            for id, (hashes, text, seconds) in named.items()
            if sizes.keys() >= set(hashes.values())
        }

    def publish(self, bound: Bound, ran: Ran) -> ActionResult:
        """Store what was made, if that may and can be done."""
        contents = {name: held.read() for name, held in ran.outputs.items()}
        if ran.why_not:
            self.note(f"not stored: {ran.why_not}")
            outputs = {name: Digest(digest_bytes(content), len(content)) for name, content in contents.items()}
            return ActionResult(outputs, ran.text, ran.seconds)
        outputs = {name: self._keep(content) for name, content in contents.items()}
        result = ActionResult(outputs, ran.text, ran.seconds)
        refusal = self.refusal()
        if refusal:
            self.note(f"not stored: {refusal}")
            return result
        try:
            self.actions.put(bound.key.digest, _pack(result))
        except StoreError as error:
            self.note(f"not stored: {error.message}")
        return result

    def why(self, bound: Bound) -> str:
        return bound.action.missing

    def _keep(self, content: bytes) -> Digest:
        try:
            return self.contents.write(content)
        except StoreError as error:
            self.note(f"not stored: {error.message}")
            return Digest(digest_bytes(content), len(content))


def _pack(result: ActionResult) -> bytes:
    outputs = {name: digest.hash for name, digest in result.outputs.items()}
    return json.dumps({**outputs, "text": result.text, "seconds": result.seconds}, separators=(",", ":")).encode()


def _unpack(action: Action, record: bytes | None) -> tuple[dict[str, str], str, float] | None:
    try:
        found = json.loads(record) if record else {}
        hashes = {name: str(found[name]) for name in action.outputs}
        return hashes, str(found.get("text", "")), float(found.get("seconds", 0.0))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
