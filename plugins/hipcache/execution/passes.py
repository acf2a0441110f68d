"""Passes over a source, run as local processes under observation, which gives their traces."""

from __future__ import annotations

import os
from pathlib import Path

from hipcache import processes
from hipcache.build import Bound, Dependency, Held, Inputs, PassTrace, Ran
from hipcache.clang import bitcode, splice, units
from hipcache.clang.frontend import BITCODE, NEUTRAL, FrontEnd, auxiliary_file, counts_errors, pass_of
from hipcache.errors import FailedInTurn, JobFailed, PassThrough
from hipcache.execution.attempt import Attempt, Way, attempt
from hipcache.execution.auto_upgrade import AutoUpgrade
from hipcache.execution.front_ends import FrontEndWays
from hipcache.execution.local import place
from hipcache.execution.read_files import listed, read_files
from hipcache.execution.session import Session

_CUIDLESS = "static variables are named after a header's inode (no CUID)"


class PassFailed(FailedInTurn):
    """A pass said what is wrong with the source, in the words that the user is to read. `dependencies`: what it read,
    None if a header is missing (then clang removes the dependency file)."""

    def __init__(
        self, failed: JobFailed, front: FrontEnd, text: str, dependencies: tuple[Dependency, ...] | None
    ) -> None:
        super().__init__(failed.job, failed.status)
        self.front = front
        self.text = text
        self.dependencies = dependencies


class ObservedPass:
    def __init__(self, session: Session) -> None:
        self.session = session
        self._auto_upgrade = AutoUpgrade(session)
        self._ways = FrontEndWays(session)

    def run(self, bound: Bound, inputs: Inputs) -> Ran:
        session, action, work = self.session, bound.action, pass_of(bound)
        front = work.front
        gpubinary = Path(place(session, work.gpubinary, inputs)) if work.gpubinary else None

        def way(more: str) -> Way:
            output = session.jobs.scratch(work.stem + more + (".bc" if work.bitcode else ".o"))
            rule = output.with_suffix(".d")
            return Way(front.argv(output, rule, bitcode=work.bitcode, gpubinary=gpubinary), output, rule)

        def plainly() -> Attempt:
            plain = way("")
            try:
                return attempt(session, action.label, front, plain)
            except JobFailed as failed:
                raise _failed(session, front, plain.rule, failed) from failed

        done = self._ways.run(action.label, work, way, plainly)
        trace, why_not = done.trace, done.why_not
        files = [done.output, *(auxiliary_file(done.output, option) for option in front.auxiliary)]
        held = {name: Held(path=file) for name, file in zip(action.outputs, files, strict=False) if file.exists()}
        made, text = done.output.read_bytes(), processes.decode(done.done.stderr)
        # Its back end reads what the pass has not read: nothing may lead there a second time.
        assembles = bitcode.reads_files(made, done.output)
        why_not = why_not or assembles
        if work.bitcode:
            module = bitcode.read(made, front.cuid)
            if self._auto_upgrade.changes(front, done.output, made):
                module = bitcode.IN_ONE_STEP
            passing = {BITCODE: module.digest, NEUTRAL: "" if assembles else module.neutral}
            held[NEUTRAL] = held[BITCODE]
            named = bitcode.names(made, session.files.basedir.path)
        else:
            passing, named = {}, session.files.basedir.named_in(made)
            if front.has_gap:
                _check_layout(made)
            if units.names_another_file(front.job, session.files, made):
                why_not = why_not or _CUIDLESS
        hidden = front.hides_paths_for_good(bitcode=work.bitcode) or any(
            session.files.basedir.is_cut(one.partition("=")[0]) for one in front.prefix_maps
        )
        trace = PassTrace(trace.reads, trace.files, trace.names_base or named or hidden)
        return Ran(held, text, done.done.work, why_not, passing, pass_trace=trace)


def _failed(session: Session, front: FrontEnd, rule: Path, failed: JobFailed) -> JobFailed:
    """The failure as PassFailed, if only the source is at fault: cc1 ends with the number of errors."""
    text, ours = processes.decode(failed.said), os.fsencode(session.jobs.workdir)
    if failed.status != 1 or not counts_errors(text) or ours in failed.said or front.auxiliary:
        return failed
    if rule.exists():
        return PassFailed(failed, front, text, listed(*read_files(session, front, rule, None)))
    return PassFailed(failed, front, text, None) if "' file not found" in text else failed


def _check_layout(content: bytes) -> None:
    try:
        if splice.splice(content, splice.PLACEHOLDER) != content:
            raise splice.UnknownObject("hipcache's own layout of it differs")
    except splice.UnknownObject as error:
        raise PassThrough("object_layout", str(error)) from error
