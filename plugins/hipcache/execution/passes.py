"""Passes over a source, run as local processes under observation, which gives their traces."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from hipcache import processes
from hipcache.base import features
from hipcache.base.errors import FailedInTurn, JobFailed, PassThrough
from hipcache.base.paths import absolute, is_null, is_of_kernel
from hipcache.base.values import dataclass, replace
from hipcache.build import Bound, Dependency, Held, Inputs, PassTrace, Ran, depfile
from hipcache.clang import bitcode, host_object, units
from hipcache.clang.frontend import BITCODE, NEUTRAL, FrontEnd, Pass, auxiliary_file, counts_errors, graph_file, pass_of
from hipcache.execution.auto_upgrade import AutoUpgrade
from hipcache.execution.local import place
from hipcache.execution.session import Session
from hipcache.inputs import observing, preprocessed, recording, search
from hipcache.inputs.file_manager import Unobserved, Untraceable
from hipcache.inputs.identity import is_script
from hipcache.inputs.observing import Observed, plain
from hipcache.inputs.place import binds
from hipcache.inputs.preprocessed import Query
from hipcache.inputs.readset import ReadSet
from hipcache.processes.runner import Completed

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


class PassExecutor:
    """Runs passes over a source, each observed."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._auto_upgrade = AutoUpgrade(session)

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

        done = session.once(FrontEndWays).run(action.label, work, way, plainly)
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
            session.files.basedir.is_cut(mapping.partition("=")[0]) for mapping in front.prefix_maps
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
        if host_object.splice(content, host_object.PLACEHOLDER) != content:
            raise host_object.UnknownObject("hipcache's own layout of it differs")
    except host_object.UnknownObject as error:
        raise PassThrough("object_layout", str(error)) from error


class FrontEndWay(Protocol):
    def run(self, name: str, work: Pass, way: Callable[[str], Way], plainly: Callable[[], Attempt]) -> Attempt:
        """`name`: of the pass, in messages; `way`: how it is run, with another stem for its files in the scratch;
        `plainly`: runs it so. Raises as `plainly`."""

    def macros(self, front: FrontEnd, query: Query) -> tuple[Path, Collection[str]] | None:
        """A text after which the macros are those behind the header that the driver puts first, if the question has the
        same answer with it in the header's place; and names that none may use then."""


class FrontEndWays:
    """Those of one compile, loaded when its first pass runs."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._found: FrontEndWay | None = None

    def run(self, name: str, work: Pass, way: Callable[[str], Way], plainly: Callable[[], Attempt]) -> Attempt:
        found = self._feature()
        return found.run(name, work, way, plainly) if found else plainly()

    def macros(self, front: FrontEnd, query: Query) -> tuple[Path, Collection[str]] | None:
        found = self._feature()
        return found.macros(front, query) if found else None

    def _feature(self) -> FrontEndWay | None:
        context = self._session.context
        if not context.preambles or context.recache:
            return None
        with self._lock:
            for front_end in () if self._found else features.added("front_end"):
                self._found = front_end(self._session)
            return self._found


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
    with session.context.slots.hold(session.jobs.runner.check):
        started = session.context.clock()
        done, observed = run_observed(session, name, way.argv)
        set_back = session.jobs.was_set_back(started, done)
    trace, why_not = trace_of(
        session, front, way.rule, way.began or started, observed, set_back=set_back, more=way.more
    )
    return Attempt(way.output, done, trace, why_not)


def run_observed(session: Session, name: str, argv: list[str]) -> tuple[Completed, Observed | None]:
    """Run the pass, under observation if possible. Processes that a script starts may outlive it, and would then lose
    their observer."""
    if is_script(argv[0]):
        return session.jobs.run_now(name, argv), None
    traced = session.jobs.trace(name, argv)
    observed = None if traced.observed is None else observing.parse(traced.observed, str(session.jobs.workdir))
    return traced.ended, observed


def trace_of(
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
        names_base = binds(
            session.files, read=read, macros=front.macros, search=front.search, maps=front.macro_prefix_maps
        )
        if observed is None and any(option.name == "-fms-compatibility" for option in front.job.options):
            reads = None
            raise Unobserved("-fms-compatibility searches the directories of all including files")
    except Untraceable as error:
        why_not = str(error)
        if isinstance(error, Unobserved):  # never set back: other passes end in other threads
            session.unobserved = True
    return PassTrace(reads, listed(read, user), names_base), why_not


def recorded(
    session: Session,
    front: FrontEnd,
    read: Sequence[str],
    user: frozenset[str] | None,
    observed: Observed | None,
    started: float,
) -> ReadSet:
    """The read set of a pass that began at `started` (seconds of the epoch). `read` and `user`: as of `read_files`.
    Raises Untraceable, OSError."""
    return recording.record(
        session.files,
        read=list(read),
        user=user,
        first=front.included,
        macros=front.macros,
        search=front.search,
        started=started,
        dated=front.dated,
        observed=observed,
        is_tools=session.identities.knows,
        preprocess=lambda marked: _preprocess(session, front, Query(marked)),
    )


def listed(read: list[str], user: frozenset[str] | None) -> tuple[Dependency, ...]:
    return tuple(Dependency(path, user is not None and path not in user) for path in read)


def read_files(
    session: Session, front: FrontEnd, rule: Path, observed: Observed | None, more: tuple[str, ...] = ()
) -> tuple[list[str], frozenset[str] | None]:
    """(all files that the pass read, the source first; those that are no system headers, None if not known). `more`:
    system headers that others have read for it."""
    source = plain(front.source)  # as in clang's dependency file
    try:
        listed = depfile.parse(os.fsdecode(rule.read_bytes()))
        if front.job.all_headers:
            return depfile.union([[source], more, listed]), None
        graph = depfile.parse_graph(os.fsdecode(graph_file(rule).read_bytes()))
    except OSError as error:
        raise PassThrough("job_output", f"no dependency file: {error.strerror}") from error
    search, root = front.search, front.sysroot
    exists = session.files.exists
    entered: list[str] = []
    for name in graph:
        # The graph's names lack the sysroot, where they began with it: all that the name may stand for is watched.
        found = [path for path in (name, root + name, os.path.join(root, name)) if exists(path)]
        if observed:
            found = list(filter(observed.has_read, found)) or found
        if not found:
            raise PassThrough("job_output", f"'{name}' was read, but does not exist")
        entered += map(plain, found)
    # A file of -include has no edge in the graph.
    places = ("", *search.quote, *search.angled)
    for name in front.included:
        entered += [path for path in (os.path.join(place, name) for place in places) if exists(path)][:1]
    return depfile.union([[source], listed, more, entered]), frozenset([source, *listed])


def check_streams(read: list[str]) -> None:
    """Raises PassThrough: the user's standard input was another file for this pass."""
    for path in read:
        if is_of_kernel(absolute(path, "")) and not is_null(path):
            raise PassThrough("standard_streams", path)


# Asks the compiler's own preprocessor about a pass, which takes a sixth of the time of the pass.

# Options with which it would be another text than the compiler sees.
_OF_TEXT = frozenset(
    (
        *("-E", "-C", "-CC", "-P", "-dA", "-dD", "-dI", "-dM", "-dU", "-fdirectives-only", "-fminimize-whitespace"),
        *("-fuse-line-directives", "-fkeep-system-includes", "-traditional-cpp"),
    )
)

_SILENT = frozenset(("-w", "-Wno-everything"))


def preprocess(session: Session, front: FrontEnd, query: Query) -> bytes | None:
    """The preprocessed text, as the query has it; None if a text uses a name that none may use, if it cannot be
    told, or there is anything to say about it. Where the text of the driver's header does not matter, it is left out.
    Raises PassThrough if the compiler cannot be started."""
    first = session.once(FrontEndWays).macros(front, query)
    made = _preprocess(session, front, query, first) if first else None
    # The header has no number of a line, but types, which others may name by their places.
    if made is None or (preprocessed.LINE in query.marked and preprocessed.names_types(made)):
        return _preprocess(session, front, query)
    return made


def _preprocess(
    session: Session, front: FrontEnd, query: Query, first: tuple[Path, Collection[str]] | None = None
) -> bytes | None:
    """The same by one process. `first`: what stands in the place of the driver's header, and names that none may use
    then."""
    options = {option.text[0] for option in front.job.options}
    # That a name is one of a macro already is only warned of.
    if not _OF_TEXT.isdisjoint(options) or (query.unused and not _SILENT.isdisjoint(options)):
        return None
    if not all(map(preprocessed.macro_of, front.macros)):
        return None  # the last one would take in the first mark of a builtin macro
    argv = front.preprocessor(query.marked, query.left_out)
    text, unused = first or ("", ())
    if text:
        argv[argv.index("-include") + 1] = str(text)
    if query.replaced:
        argv[2:2] = ["-ivfsoverlay", _overlay(session, front, query.replaced)]
    poison = preprocessed.poison({*query.unused, *query.left_out, *unused})
    if not query.text:
        argv[argv.index("-E")] = "-Eonly"
        poison += preprocessed.NO_PRAGMA
    if poison:
        # A file of -imacros could name these before they are poisoned, or switch the warning off.
        file = session.jobs.scratch(f"poison-{front.key.digest}", poison)
        argv[2:2] = ["-imacros", str(file)]
    with session.context.slots.hold(session.jobs.runner.check):
        started = session.context.clock()
        done = session.jobs.attempt(argv)
    if not query.text and preprocessed.shows_pragma(done.stderr):
        return _preprocess(session, front, replace(query, text=True), first)
    if done.status or done.stderr or session.jobs.was_set_back(started, done):
        return None
    made = done.stdout.replace(poison, b"", 1) if poison else done.stdout
    if preprocessed.may_expand_pack(made):
        listed = session.jobs.attempt([*argv, "-dD"])
        if listed.status or preprocessed.defines_pack(listed.stdout):
            return None

    def identity(path: str) -> object:
        return search.identity(session.files.resolve(path))

    files = {identity(path) for path in query.replaced}
    return preprocessed.without_witnesses(made, identity, files) if files else made


def _overlay(session: Session, front: FrontEnd, replaced: Mapping[str, bytes]) -> str:
    """A file system of clang's in which those paths are files with those contents (VirtualFileSystem.h)."""
    name = f"overlay-{front.key.digest}"
    roots = []
    files: dict[object, str] = {}  # one for all names of a file: `#pragma once` goes by files
    for path, content in replaced.items():
        absolute_path = session.files.resolve(path)
        identity = search.identity(absolute_path)
        if identity not in files:
            files[identity] = str(session.jobs.scratch(f"{name}-{len(files)}", content))
        roots.append({"type": "file", "name": absolute_path, "external-contents": files[identity]})
    whole = {"version": 0, "case-sensitive": True, "use-external-names": False, "roots": roots}
    return str(session.jobs.scratch(name, json.dumps(whole).encode()))
