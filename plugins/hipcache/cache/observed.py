"""Results of actions whose inputs are not declared: by their key, and by the files that they were seen to read.

Two steps. Under the action's key lies a list of traces: JSON {"traces": [[hash of a read set, directory], ...]}, the
newest first. The first that holds now gives the key of the result, which is one as any other (`cache/content`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress

from hipcache.cache.content import ContentCache
from hipcache.errors import StoreError
from hipcache.inputs.keys import make_key
from hipcache.model.action import ActionResult, Bound, Cache
from hipcache.model.contents import Ran, Trace
from hipcache.values import dataclass, field

# The contents that the files of one command have had lately: branches, and the state before an edit.
MOST_TRACES = 16


@dataclass(frozen=True)
class ObservedCache:
    """`content`: also of all other actions; `differs` tells in words why a trace does not hold (empty: it does)."""

    content: ContentCache
    differs: Callable[[Trace], str]
    _why: dict[str, str] = field(default_factory=dict)

    def look_up(self, wanted: Sequence[Bound]) -> dict[str, ActionResult]:
        observed = [bound for bound in wanted if bound.action.policy.cache is Cache.OBSERVED]
        others = [bound for bound in wanted if bound.action.policy.cache is not Cache.OBSERVED]
        return self.content.look_up([*others, *self._traced(observed)])

    def publish(self, bound: Bound, ran: Ran) -> ActionResult:
        if bound.action.policy.cache is not Cache.OBSERVED or ran.trace is None:
            return self.content.publish(bound, ran)
        result = self.content.publish(_result(bound, ran.trace), ran)
        if not ran.why_not and not self.content.refusal():
            old = self._traces([bound]).get(bound.key.digest, [])
            kept = [ran.trace, *(trace for trace in old if trace != ran.trace)][:MOST_TRACES]
            with suppress(StoreError):  # `content` has said so
                self.content.actions.put(bound.key.digest, _pack(kept))
        return result

    def why(self, bound: Bound) -> str:
        return self._why.get(bound.key.digest) or self.content.why(bound)

    def _traced(self, wanted: Sequence[Bound]) -> list[Bound]:
        """Those of which a trace holds, with the keys of their results."""
        if self.content.recache or not wanted:
            return []
        traces, found = self._traces(wanted), []
        for bound in wanted:
            why = ""
            for trace in traces.get(bound.key.digest, []):
                differs = self.differs(trace)
                if not differs:
                    found.append(_result(bound, trace))
                    why = "the store no longer has what was made"
                    break
                why = why or differs
            self._why[bound.key.digest] = why
        return found

    def _traces(self, wanted: Sequence[Bound]) -> dict[str, list[Trace]]:
        records = self.content.actions.get([bound.key.digest for bound in wanted])
        return {key: _unpack(record) for key, record in records.items()}


def _result(bound: Bound, trace: Trace) -> Bound:
    parts = (("action", bound.key.digest), ("read", trace.reads), ("directory", trace.directory))
    return Bound(bound.action, make_key(f"{bound.key.kind} that read", parts))


def _pack(traces: Sequence[Trace]) -> bytes:
    return json.dumps({"traces": [[one.reads, one.directory] for one in traces]}, separators=(",", ":")).encode()


def _unpack(record: bytes) -> list[Trace]:
    try:
        return [Trace(str(reads), str(directory)) for reads, directory in json.loads(record)["traces"]]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []
