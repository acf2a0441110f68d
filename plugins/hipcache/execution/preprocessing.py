"""Asks the compiler's own preprocessor about a pass, which takes a sixth of the time of the pass."""

from __future__ import annotations

from collections.abc import Collection

from hipcache.execution.session import Session
from hipcache.inputs import preprocessed
from hipcache.planning.frontend import FrontEnd


def text(session: Session, front: FrontEnd, marked: Collection[str]) -> bytes | None:
    """The preprocessed text, with marks for the values of those macros (`preprocessed.mark`); None if it cannot be
    told, or there is anything to say about it. Raises PassThrough if the compiler cannot be started."""
    with session.engine.slots.hold(session.jobs.runner.check):
        started = session.engine.clock()
        done = session.jobs.attempt(front.preprocessor(marked))
    told = not (done.status or done.stderr or session.jobs.was_set_back(started, done))
    return done.stdout if told else None


def expands(session: Session, front: FrontEnd, macros: Collection[str]) -> bool:
    """May what the pass makes depend on the values of these macros?"""
    found = None if front.job.emits == "-E" else text(session, front, macros)
    return found is None or preprocessed.is_expanded(found, macros)
