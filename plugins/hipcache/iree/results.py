"""Results of actions with undeclared inputs: by key, and by the files that they were observed to read.

The lookup has two steps. The action's key leads to a list of traces: JSON {"traces": [[hash of a read set, directory],
...]}, newest first. The first trace that holds gives the key of the result, an ordinary record (`cache/content`).

Manifests of passes (`cache/manifest`) also store traces, but differ: an entry there is the result itself, with
properties that only clang passes have (the format of messages, lines quoted in them, comments that do not matter, other
spellings of paths, bitcode that is named and not stored). hipcache knows nothing about how a tool like iree-compile
uses its input, so a trace here holds only if every file has the same content, and the result has a key of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from hipcache.cache.content import ContentCache
from hipcache.execution.session import Session
from hipcache.inputs.keys import make_key
from hipcache.model import ActionResult, Bound, Missing, Ran, Trace
from hipcache.values import dataclass

# One command may have so many versions of its files: several branches, and the state before an edit.
MOST_TRACES = 16


@dataclass(frozen=True)
class ObservedCache:
    """`differs` returns in words why a trace does not hold (empty: it holds)."""

    content: ContentCache
    differs: Callable[[Trace], str]

    def look_up(self, wanted: Sequence[Bound]) -> Mapping[str, ActionResult | Missing]:
        missing: dict[str, ActionResult | Missing] = {}
        holding = []
        traces = self._traces(wanted)
        for bound in wanted:
            why = ""
            for trace in traces.get(bound.key.digest, []):
                differs = self.differs(trace)
                if not differs:
                    holding.append(_result(bound, trace))
                    why = "the store no longer has its outputs"
                    break
                why = why or differs
            missing[bound.action.id] = Missing(why or bound.action.missing)
        return {**missing, **self.content.look_up(holding)}

    def publish(self, bound: Bound, ran: Ran) -> ActionResult:
        if ran.trace is None:
            return self.content.publish(bound, ran)
        result = self.content.publish(_result(bound, ran.trace), ran)
        if not ran.why_not:
            found = self.content.shelf.actions.get([bound.key.digest]).get(bound.key.digest)
            old = _unpack(found) if found else []
            kept = [ran.trace, *(trace for trace in old if trace != ran.trace)][:MOST_TRACES]
            self.content.shelf.put(bound.key.digest, _pack(kept))
        return result

    def _traces(self, wanted: Sequence[Bound]) -> dict[str, list[Trace]]:
        records = self.content.shelf.records([bound.key.digest for bound in wanted]) if wanted else {}
        return {key: _unpack(record) for key, record in records.items()}


def result_cache(session: Session, content: ContentCache) -> ObservedCache:
    return ObservedCache(content, partial(_differs, session))


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


def _differs(session: Session, trace: Trace) -> str:
    """Why the trace no longer holds, in words; empty if it holds."""
    if trace.directory and trace.directory != session.command.cwd:
        return f"the output names the directory that it was made in, '{trace.directory}'"
    reads = session.shelves.reads.get(trace.reads)
    if reads is None:
        return "the store no longer has the list of files that it read"
    return session.files.differs(trace.reads, reads, exact=True)
