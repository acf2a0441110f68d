"""A process with undeclared inputs: run under observation, which gives its trace.

The trace lists each file that it opened, by content, and each path that it looked for and did not find. The output is
not stored if this list is incomplete: the process read something other than regular files, wrote a file beside the
output, or a file changed meanwhile.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from hipcache.disk.special import is_of_kernel
from hipcache.execution.local import said
from hipcache.execution.session import Session
from hipcache.inputs import observing, recording
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.readset import ReadSet
from hipcache.inputs.search import SearchPath
from hipcache.inputs.trace import Unobserved, Untraceable
from hipcache.model import Held, Ran, Trace
from hipcache.processes.runner import Traced


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
