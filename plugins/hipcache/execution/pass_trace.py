"""Runs a pass over a source under observation, and makes its trace."""

from __future__ import annotations

from pathlib import Path

from hipcache.build import PassTrace
from hipcache.clang.frontend import FrontEnd
from hipcache.execution.read_files import check_streams, listed, read_files, recorded
from hipcache.execution.session import Session
from hipcache.inputs import observing, place
from hipcache.inputs.identity import is_script
from hipcache.inputs.observing import Observed
from hipcache.inputs.readset import ReadSet
from hipcache.inputs.trace import Unobserved, Untraceable
from hipcache.processes.runner import Completed


def run(session: Session, name: str, argv: list[str]) -> tuple[Completed, Observed | None]:
    """Run the pass, under observation if possible. Processes that a script starts may outlive it, and would then lose
    their observer."""
    if is_script(argv[0]):
        return session.jobs.run_now(name, argv), None
    traced = session.jobs.trace(name, argv)
    observed = None if traced.observed is None else observing.parse(traced.observed, str(session.jobs.workdir))
    return traced.ended, observed


def trace(
    session: Session,
    front: FrontEnd,
    rule: Path,
    started: float,
    observed: Observed | None,
    *,
    set_back: bool,
    more: tuple[tuple[str, ...], Observed] | None = None,
) -> tuple[PassTrace, str]:
    """The trace of the pass, and why its result must not be stored, in words (empty: it may). `more`: as of `Way`."""
    if more and observed:
        observed = observed.joined(more[1])
    read, user = read_files(session, front, rule, observed, more[0] if more else ())
    if observed and not all(map(observed.has_read, read)):
        # Another process read it for the pass.
        observed = None
        if more:
            return PassTrace(None, (), False), "hipcache cannot observe what it reads"
        read, user = read_files(session, front, rule, None)
    check_streams(read)
    reads: ReadSet | None = None
    why_not, names_base = "", False
    try:
        if set_back:
            # Then the change time of a file does not tell whether it changed while the pass ran.
            raise Untraceable("the clock was set back while the compiler ran")
        reads = recorded(session, front, read, user, observed, started)
        names_base = place.binds(
            session.files, read=read, macros=front.macros, search=front.search, maps=front.macro_prefix_maps
        )
        if observed is None and any(option.name == "-fms-compatibility" for option in front.job.options):
            reads = None
            raise Unobserved("-fms-compatibility searches the directories of all including files")
    except Untraceable as error:
        why_not = str(error)
        session.unobserved = session.unobserved or isinstance(error, Unobserved)
    return PassTrace(reads, listed(read, user), names_base), why_not
