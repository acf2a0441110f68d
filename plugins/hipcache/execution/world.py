"""The world of a compile: what the loop finds results in, and runs actions by. The local store with a team's cache, and
executors on this machine and elsewhere."""

from __future__ import annotations

import threading
from functools import partial

from hipcache.base import features
from hipcache.base.values import replace
from hipcache.build import Bound, Cache, Process
from hipcache.build.loop import Caches, Executor, InProcess, ResultCache, World
from hipcache.build.storage import LocalFlight
from hipcache.cache.content import ContentCache
from hipcache.cache.manifest import ManifestCache
from hipcache.clang.frontend import Pass
from hipcache.execution.session import Session


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
            from hipcache.execution.passes import PassExecutor

            return PassExecutor(self._session)
        if kind is Process:
            from hipcache.execution.local import LocalProcess

            local, executions = LocalProcess(self._session), self._session.context.executions
            if executions:
                for executor in features.added("executor"):
                    found: Executor = executor(self._session, local, executions())
                    return found
            return local
        return InProcess()


class ResultCaches(dict[Cache, ResultCache]):
    """A feature's is imported when the first action asks for it."""

    def __init__(self, session: Session, content: ContentCache, manifest: ManifestCache) -> None:
        super().__init__({Cache.NEVER: content, Cache.CONTENT: content, Cache.MANIFEST: manifest})
        self._session, self._content = session, content

    def __missing__(self, policy: Cache) -> ResultCache:
        self[policy] = next(features.modules_for("CACHES", policy.value)).result_cache(self._session, self._content)
        return self[policy]


def world_of(session: Session) -> World:
    shelf = session.shelves.shelf
    content = ContentCache(shelf)
    passes = ManifestCache(shelf, session.shelves.reads, session.files, session.command.cwd)
    caches: ResultCache = Caches(ResultCaches(session, content, passes))
    if session.context.remote and not session.context.recache:
        caches = next(features.added("shared_cache"))(caches, session.shelves)
    jobs, flight = session.jobs, LocalFlight(session.context.store)
    adopt = partial(_adopt, session, passes)
    return World(caches, shelf.contents, flight, Executors(session), jobs.at, jobs.stop, adopt)


def _adopt(session: Session, manifest: ManifestCache, bound: Bound) -> bool:
    """See `Edits.adopt`."""
    from hipcache.execution import passes

    ask = partial(passes.preprocess, session)
    adopted = replace(manifest.edits, preprocess=ask, clock=session.context.clock).adopt(bound) is not None
    if adopted:
        session.serve("an edit changes nothing here, as the preprocessor says: the results from before it are used")
    return adopted
