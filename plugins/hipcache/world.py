"""The real world of one command: the local store, and this machine to run on."""

from __future__ import annotations

from functools import partial

from hipcache.build import World
from hipcache.cache.content import ContentCache
from hipcache.cache.observed import ObservedCache
from hipcache.execution.in_process import InProcess
from hipcache.execution.local import LocalProcess
from hipcache.model.action import Function, Process, Step
from hipcache.model.contents import Trace
from hipcache.session import Session
from hipcache.storage.local import LocalActions, LocalContents, LocalFlight


def world_of(session: Session) -> World:
    store = session.engine.store
    contents = LocalContents(store)
    note, refusal, recache = session.notes.append, session.changed, session.engine.recache
    content = ContentCache(LocalActions(store), contents, note, refusal, recache)
    return World(
        ObservedCache(content, partial(_differs, session)),
        contents,
        LocalFlight(store),
        {Process: LocalProcess(session), Function: InProcess(), Step: InProcess()},
        session.runner.kill,
    )


def _differs(session: Session, trace: Trace) -> str:
    """In words, why the trace does not hold now; empty if it does."""
    if trace.directory and trace.directory != session.command.cwd:
        return f"what was made names the directory that it was made in, '{trace.directory}'"
    reads = session.read_set(trace.reads)
    if reads is None:
        return "the store no longer has the list of files that it read"
    return session.files.differs(trace.reads, reads, exact=True)
