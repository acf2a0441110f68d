"""One run of a pass over a source: its output, its messages, and its trace."""

from __future__ import annotations

from pathlib import Path

from hipcache.errors import JobFailed
from hipcache.execution import pass_trace
from hipcache.execution.headers import Headers
from hipcache.execution.session import Session
from hipcache.model import PassTrace
from hipcache.planning import preamble
from hipcache.planning.frontend import FrontEnd
from hipcache.processes.runner import Completed
from hipcache.values import dataclass


@dataclass(frozen=True)
class Attempt:
    """`why_not`: in words, why its result must not be stored; empty: it may. `preamble`: the key of that which the pass
    used, if it did."""

    output: Path
    done: Completed
    trace: PassTrace
    why_not: str
    preamble: str = ""


@dataclass(frozen=True)
class Way:
    """One way to run a pass: `argv` writes to `output`, and make's dependencies to `rule`. `began`: if not 0, since
    when (seconds of the epoch) its files must be as they are; `headers`: of the preamble that it uses."""

    argv: list[str]
    output: Path
    rule: Path
    began: float = 0.0
    headers: Headers | None = None


def attempt(session: Session, name: str, front: FrontEnd, way: Way) -> Attempt:
    """`name`: of the pass, in messages. Raises as `Jobs.run`."""
    with session.engine.slots.hold(session.jobs.runner.check):
        started = session.engine.clock()
        done, observed = pass_trace.run(session, name, way.argv)
        set_back = session.jobs.was_set_back(started, done)
    trace, why_not = pass_trace.trace(
        session, front, way.rule, way.began or started, observed, set_back=set_back, headers=way.headers
    )
    return Attempt(way.output, done, trace, why_not)


def object_of(session: Session, name: str, front: FrontEnd, made: Attempt) -> tuple[bytes, bytes] | None:
    """The object that the back end makes of that bitcode, and its messages; None if it fails."""
    output = made.output.with_suffix(".checked.o")
    try:
        done = session.jobs.run(name, preamble.back_end(front, str(made.output), str(output)))
        return output.read_bytes(), done.stderr.replace(bytes(made.output), b"")
    except JobFailed:
        return None
