"""One run of a pass over a source: its output, its messages, and its trace."""

from __future__ import annotations

from pathlib import Path

from hipcache.build import PassTrace
from hipcache.clang.frontend import FrontEnd
from hipcache.execution import pass_trace
from hipcache.execution.session import Session
from hipcache.inputs.observing import Observed
from hipcache.processes.runner import Completed
from hipcache.values import dataclass


@dataclass(frozen=True)
class Attempt:
    """`why_not`: in words, why its result must not be stored; empty: it may."""

    output: Path
    done: Completed
    trace: PassTrace
    why_not: str


@dataclass(frozen=True)
class Way:
    """One way to run a pass: `argv` writes to `output`, and make's dependencies to `rule`. `began`: if not 0, since
    when (seconds of the epoch) its files must be as they are; `more`: the headers that others have read for it, and all
    paths that they looked at."""

    argv: list[str]
    output: Path
    rule: Path
    began: float = 0.0
    more: tuple[tuple[str, ...], Observed] | None = None


def attempt(session: Session, name: str, front: FrontEnd, way: Way) -> Attempt:
    """`name`: of the pass, in messages. Raises as `Jobs.run`."""
    with session.engine.slots.hold(session.jobs.runner.check):
        started = session.engine.clock()
        done, observed = pass_trace.run(session, name, way.argv)
        set_back = session.jobs.was_set_back(started, done)
    trace, why_not = pass_trace.trace(
        session, front, way.rule, way.began or started, observed, set_back=set_back, more=way.more
    )
    return Attempt(way.output, done, trace, why_not)
