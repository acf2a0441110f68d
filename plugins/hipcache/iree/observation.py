"""A process with undeclared inputs: run under observation, which gives its trace.

The trace lists each file that it opened, by content, and each path that it looked for and did not find. The output is
not stored if this list is incomplete: the process read something other than regular files, wrote a file beside the
output, or a file changed meanwhile.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from hipcache.build import ActionResult, Bound, Held, Missing, Ran, Trace
from hipcache.cache.content import ContentCache
from hipcache.disk.paths import is_of_kernel
from hipcache.execution.local import said
from hipcache.execution.session import Session
from hipcache.inputs import observing, recording
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.keys import make_key
from hipcache.inputs.readset import ReadSet
from hipcache.inputs.search import SearchPath
from hipcache.inputs.trace import Unobserved, Untraceable
from hipcache.processes.runner import Traced
from hipcache.values import dataclass


def run(
    session: Session,
    label: str,
    argv: list[str],
    output: tuple[str, Path],
    places: Sequence[str],
    stdin: Path | None = None,
) -> Ran:
    """`output`: its name and where the process writes it; `places`: directories whose names bind what was made to the
    working directory; `stdin`: a file for its standard input. Raises JobFailed, PassThrough."""
    with session.engine.slots.hold(session.jobs.runner.check):
        started = session.engine.clock()
        traced = session.jobs.trace(label, argv, environ=session.jobs.environ_here(), stdin=stdin)
        set_back = session.jobs.was_set_back(started, traced.ended)
    name, made = output
    text = said(session, traced.ended.stderr)
    trace, why_not = None, ""
    try:
        if set_back:
            raise Untraceable("the clock was set back while the compiler ran")
        reads = session.shelves.reads.keep(_reads(session, traced, started))
        content = made.read_bytes()
        is_named = any(Basedir(place).named_in(content) or place in text for place in places)
        trace = Trace(reads, session.command.cwd if is_named else "")
    except Untraceable as error:
        why_not = str(error)
        session.unobserved = session.unobserved or isinstance(error, Unobserved)
    return Ran({name: Held(path=made)}, text, traced.ended.work, why_not, trace=trace)


def _reads(session: Session, traced: Traced, started: float) -> ReadSet:
    if traced.observed is None:
        raise Unobserved(f"hipcache cannot observe here what it reads: {traced.why}")
    seen = observing.parse(traced.observed, str(session.jobs.workdir))
    for path in sorted(seen.written):
        if not (path.startswith("/dev/") and is_of_kernel(path)):
            raise Untraceable(f"it also writes '{path}'")
    for path in sorted(seen.opened):
        try:
            regular = stat.S_ISREG(os.stat(session.files.resolve(path)).st_mode)
        except OSError as error:
            raise Untraceable(f"'{path}' cannot be read: {error.strerror}") from error
        if not regular:
            raise Untraceable(f"'{path}' is not a regular file")
    return recording.record(
        session.files,
        read=[],
        user=None,
        first=[],
        macros=[],
        search=SearchPath((), ()),
        started=started,
        dated=False,
        observed=seen,
        is_tools=session.identities.knows,
    )


# One command may have so many versions of its files: several branches, and the state before an edit.
MOST_TRACES = 16


@dataclass(frozen=True)
class ObservedCache:
    """Results of actions with undeclared inputs: by key, and by the files that they were observed to read.

    The lookup has two steps. The action's key leads to a list of traces: JSON {"traces": [[hash of a read set,
    directory], ...]}, newest first. The first trace that holds gives the key of the result, an ordinary record
    (`cache/content`).

    Manifests of passes (`cache/manifest`) also store traces, but an entry there is the result itself, with properties
    that only clang passes have. hipcache knows nothing about how a tool like iree-compile uses its input, so a trace
    here holds only if every file has the same content, and the result has a key of its own.

    `differs` returns in words why a trace does not hold (empty: it holds).
    """

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
    return session.files.differs(trace.reads, reads)
