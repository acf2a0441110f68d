"""The real world of one command: the local store, and this machine to run on."""

from __future__ import annotations

from hipcache.build import World
from hipcache.cache.content import ContentCache
from hipcache.execution.in_process import InProcess
from hipcache.execution.local import LocalProcess
from hipcache.model.action import Function, Process, Step
from hipcache.session import Session
from hipcache.storage.local import LocalActions, LocalContents, LocalFlight


def world_of(session: Session) -> World:
    store = session.engine.store
    contents = LocalContents(store)
    note, refusal, recache = session.notes.append, session.changed, session.engine.recache
    return World(
        ContentCache(LocalActions(store), contents, note, refusal, recache),
        contents,
        LocalFlight(store),
        {Process: LocalProcess(session), Function: InProcess(), Step: InProcess()},
        session.runner.kill,
    )
