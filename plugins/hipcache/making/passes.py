"""A pass over the source (a device's front end, or the host's): found by its trace, or run and remembered."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from hipcache.errors import JobFailed, PassThrough
from hipcache.inputs import observing, place, recording
from hipcache.inputs.identity import is_script
from hipcache.inputs.observing import Observed
from hipcache.inputs.readset import ReadSet
from hipcache.inputs.search import SearchPath
from hipcache.inputs.trace import Unobserved, Untraceable
from hipcache.making import depfile, elsewhere, records
from hipcache.making.records import FrontEntry
from hipcache.planning import inodes
from hipcache.planning.cc1 import Role
from hipcache.planning.command import is_null
from hipcache.planning.frontend import FrontEnd, auxiliary_file, graph_file
from hipcache.processes.runner import Completed
from hipcache.session import Session, decode
from hipcache.values import dataclass, replace

NEVER = "nothing is stored for this command"
_COUNTED = re.compile(r"(?:^|\n)(?:\d+ warnings? and )?\d+ errors? generated(?: when compiling for [^\n]+)?\.\n\Z")


@dataclass(frozen=True)
class Dependency:
    """A file that a pass read. `system`: left out by -MMD."""

    path: str
    system: bool


@dataclass(frozen=True)
class Found:
    """A trace that holds, or else `why` none does (in words, for the newest one), and whether that one talked."""

    entry: FrontEntry | None
    why: str
    talked: bool = False
    dependencies: tuple[Dependency, ...] = ()


@dataclass(frozen=True)
class Ran:
    """A pass that was run. `reads` is None where its result must not be kept, and `why_not` says so; `bound`: it may
    depend on the base directory though nothing shows it; `beside`: what it wrote beside its output, by option."""

    output: Path
    text: str
    seconds: float
    dependencies: tuple[Dependency, ...]
    reads: ReadSet | None
    why_not: str
    bound: bool = False
    beside: tuple[bytes | None, ...] = ()


class PassFailed(JobFailed):
    """A pass said what is wrong with the source, in the words that the user is to read. `dependencies`: what it read,
    None where a header is missing (then clang removes the dependency file); `before`: what the units before it said,
    and read."""

    def __init__(
        self, failed: JobFailed, front: FrontEnd, text: str, dependencies: tuple[Dependency, ...] | None
    ) -> None:
        super().__init__(failed.job, failed.status)
        self.front = front
        self.text = text
        self.dependencies = dependencies
        self.before: Sequence[tuple[str, tuple[Dependency, ...]]] = ()


def find(session: Session, front: FrontEnd) -> Found:
    """The newest entry whose files are as they were, and whose messages (if any) look as they should now."""
    entries = records.unpack_front(session.action(front.key.digest))
    why = NEVER
    for number, entry in enumerate(entries):
        reads = session.read_set(entry.reads)
        if reads is None:
            reason = "the store no longer has the list of files that it read"
        elif entry.base and entry.base != session.files.basedir.path:
            reason = f"its output names the checkout that it was made in, '{entry.base}', or may hold a __FILE__ of it"
        elif entry.text and entry.look != front.look:
            reason = "its messages are to look another way (colours, width of the terminal)"
        else:
            reason = session.files.differs(entry.reads, reads, exact=front.comments_matter or bool(entry.text))
        if reads is not None and not reason:
            return Found(entry, "", dependencies=_dependencies(session, reads))
        if number == 0:
            why = reason
    translated = elsewhere.find(session, front)
    found = session.read_set(translated.reads) if translated else None
    if found:
        return Found(translated, "", dependencies=_dependencies(session, found))
    return Found(None, why, talked=bool(entries) and entries[0].talks)


def _dependencies(session: Session, reads: ReadSet) -> tuple[Dependency, ...]:
    return tuple(Dependency(session.files.basedir.local(file.path), file.system) for file in reads.files)


def run(session: Session, front: FrontEnd, name: str, *, bitcode: bool, gpubinary: Path | None = None) -> Ran:
    """Run the pass, and record what it read. Raises PassFailed, JobFailed."""
    stem = session.workdir / name.replace(":", "_")
    output, rule = stem.with_name(stem.name + (".bc" if bitcode else ".o")), stem.with_name(stem.name + ".d")
    argv = front.argv(output, rule, bitcode=bitcode, gpubinary=gpubinary)
    with session.engine.slots.hold(session.runner.check):
        started = session.engine.clock()
        try:
            done, observed = _run(session, name, argv)
        except JobFailed as failed:
            raise _failed(session, front, rule, failed) from failed
        set_back = session.engine.clock() - started < done.seconds - recording.CLOCK_SLACK
    session.is_through()
    search = SearchPath.of(front.job.options)
    first = [option.value for option in front.job.options if option.role is Role.INCLUDE]
    read, user = _read_files(session, front, rule, observed)
    if observed and not all(map(observed.has_read, read)):
        # Somebody else has read it for the pass.
        observed = None
        read, user = _read_files(session, front, rule, None)
    for path in read:
        # The user's standard input was another file for this pass.
        if path.startswith(("/dev/", "/proc/")) and not is_null(path):
            raise PassThrough("standard_streams", path)
    macros = [option.value for option in front.job.options if option.role is Role.MACRO]
    reads, why_not, bound = None, "", False
    try:
        if set_back:
            # Then the change time of a file does not tell whether it changed while the pass ran.
            raise Untraceable("the clock was set back while the compiler ran")
        reads = recording.record(
            session.files,
            read=read,
            user=user,
            first=first,
            macros=macros,
            search=search,
            started=started,
            dated=front.dated,
            observed=observed,
            is_tools=session.identities.knows,
        )
        bound = place.binds(session.files, read=read, macros=macros, search=search, maps=front.macro_prefix_maps)
        if observed is None and any(option.name == "-fms-compatibility" for option in front.job.options):
            raise Unobserved("-fms-compatibility looks for headers in the directories of those that include")
    except Untraceable as error:
        why_not = str(error)
        session.unobserved = session.unobserved or isinstance(error, Unobserved)
    dependencies = _listed(read, user)
    files = [auxiliary_file(output, option) for option in front.auxiliary]
    beside = tuple(file.read_bytes() if file.exists() else None for file in files)
    return Ran(output, decode(done.stderr), done.seconds, dependencies, reads, why_not, bound, beside)


def _listed(read: list[str], user: frozenset[str] | None) -> tuple[Dependency, ...]:
    return tuple(Dependency(path, user is not None and path not in user) for path in read)


def _failed(session: Session, front: FrontEnd, rule: Path, failed: JobFailed) -> JobFailed:
    """The failure with what it is about, where that is the source and nothing else: cc1 counts its errors last."""
    text = decode(failed.said)
    if failed.status != 1 or not _COUNTED.search(text) or str(session.workdir) in text or front.auxiliary:
        return failed
    if rule.exists():
        return PassFailed(failed, front, text, _listed(*_read_files(session, front, rule, None)))
    return PassFailed(failed, front, text, None) if "' file not found" in text else failed


def _run(session: Session, name: str, argv: list[str]) -> tuple[Completed, Observed | None]:
    """Run the pass, and tell what it looked at where that can be observed. Processes that a script starts may outlive
    it, and would then lose their observer."""
    if is_script(argv[0]):
        return session.run_now(name, argv), None
    traced = session.trace(name, argv)
    return traced.ended, observing.parse(traced.looked, str(session.workdir)) if traced.looked is not None else None


def remember(session: Session, front: FrontEnd, ran: Ran, entry: FrontEntry, product: bytes) -> FrontEntry:
    """Put the entry before those that are kept under the same command. Its `reads`, `look` and `base` are filled in
    here; `product` is what the unit came to in the end (a code object, the host's object). Returns the entry, with no
    `reads` where nothing may be kept."""
    if ran.reads is None:
        session.notes.append(f"not stored: {ran.why_not}")
        return entry
    if inodes.names_another_file(front.job, session.files, product):
        session.notes.append("not stored: static variables are named after a header's inode (no CUID)")
        return entry
    basedir = session.files.basedir
    named = basedir.named_in(product) or basedir.named_in(os.fsencode(entry.text))
    base = basedir.path if named or ran.bound or front.hides_paths_for_good else ""
    entry = replace(entry, reads=session.keep_read_set(ran.reads), look=front.look, base=base)
    elsewhere.put(session, front.key, entry)
    return entry


def _read_files(
    session: Session, front: FrontEnd, rule: Path, observed: Observed | None
) -> tuple[list[str], frozenset[str] | None]:
    """(all files that the pass read, the source first; those that are no system headers, None if not known)."""
    try:
        listed = depfile.parse(os.fsdecode(rule.read_bytes()))
        if front.all_headers:
            return depfile.union([[front.source], listed]), None
        graph = depfile.parse_graph(os.fsdecode(graph_file(rule).read_bytes()))
    except OSError as error:
        raise PassThrough("job_output", f"no dependency file: {error.strerror}") from error
    search = SearchPath.of(front.job.options)
    root = next((o.value for o in reversed(front.job.options) if o.name == "-isysroot"), "/")
    exists = session.files.exists
    entered: list[str] = []
    for name in graph:
        # The graph's names lack the sysroot, where they began with it: all that the name may stand for is watched.
        found = [path for path in (name, root + name, os.path.join(root, name)) if exists(path)]
        if observed:
            found = list(filter(observed.has_read, found)) or found
        if not found:
            raise PassThrough("job_output", f"'{name}' was read, and is not there")
        # As in the dependency file: without a leading ./
        entered += [re.sub(r"^(?:\./+)+", "", path) for path in found]
    # What -include names has no edge in the graph.
    places = ("", *search.quote, *search.angled)
    for name in (option.value for option in front.job.options if option.role is Role.INCLUDE):
        entered += [path for path in (os.path.join(place, name) for place in places) if exists(path)][:1]
    return depfile.union([[front.source], listed, entered]), frozenset([front.source, *listed])
