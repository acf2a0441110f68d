"""The real world of one command: the local store, and executors on this machine."""

from __future__ import annotations

import threading
from functools import partial

from hipcache.cache import Caches
from hipcache.cache.content import ContentCache
from hipcache.cache.manifest import ManifestCache
from hipcache.cache.observed import ObservedCache
from hipcache.execution import Executor, InProcess
from hipcache.execution.session import Session
from hipcache.loop.build import World
from hipcache.model import Bound, Pass, Process, Trace
from hipcache.storage import LocalFlight


class Executors(dict[type, Executor]):
    """Imported on demand: a hit runs nothing. One of each kind for all threads: they know what the others do."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._lock = threading.Lock()

    def __missing__(self, kind: type) -> Executor:
        with self._lock:
            if kind not in self:
                self[kind] = self._of(kind)
        return self[kind]

    def _of(self, kind: type) -> Executor:
        if kind is Pass:
            from hipcache.execution.passes import ObservedPass

            return ObservedPass(self._session)
        if kind is Process:
            from hipcache.execution import processes

            return processes.executor(self._session)
        return InProcess()


def world_of(session: Session) -> World:
    shelf = session.shelves.shelf
    content = ContentCache(shelf)
    observed = ObservedCache(content, partial(_differs, session))
    passes = ManifestCache(shelf, session.shelves.reads, session.files, session.command.cwd)
    caches = session.shelves.shared(Caches(content, passes, observed))
    jobs, flight = session.jobs, LocalFlight(session.engine.store)
    return World(caches, shelf.contents, flight, Executors(session), jobs.at, jobs.stop, partial(_adopt, session))


def _adopt(session: Session, bound: Bound) -> bool:
    """See `Edits.adopt`."""
    from hipcache.cache.edits import Edits
    from hipcache.execution import preprocessing

    shelves, clock = session.shelves, session.engine.clock
    ask = partial(preprocessing.text, session)
    return Edits(shelves.shelf, shelves.reads, session.files, ask, clock).adopt(bound)


def _differs(session: Session, trace: Trace) -> str:
    """Why the trace no longer holds, in words; empty if it holds."""
    if trace.directory and trace.directory != session.command.cwd:
        return f"the output names the directory that it was made in, '{trace.directory}'"
    reads = session.shelves.reads.get(trace.reads)
    if reads is None:
        return "the store no longer has the list of files that it read"
    return session.files.differs(trace.reads, reads, exact=True)
