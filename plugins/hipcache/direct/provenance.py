"""The provenance of a compile: what it wrote, and all that it depended on, as a direct hit needs it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from hipcache.build import Cache, End, Graph, Slot, delivery
from hipcache.cache.entries import Entry, unpack
from hipcache.clang.command import words_of
from hipcache.clang.dry_run import Asked, AskedToAssemble
from hipcache.direct import surroundings
from hipcache.direct.record import Output, Outputs, Rule
from hipcache.execution.session import Session
from hipcache.inputs import watched
from hipcache.inputs.readset import ReadSet, Status
from hipcache.inputs.trace import Untraceable
from hipcache.inputs.watched import FILE, Watched
from hipcache.shared import BASEDIR_MARK
from hipcache.values import dataclass

# The content of these files comes from the kernel, and changes without their status.
_KERNELS = ("/proc/", "/sys/")


@dataclass(frozen=True)
class Provenance:
    """Of one command: when its compile began (seconds of the epoch), what it wrote, which paths it depended on, what
    of the store it used (action or not, digest), the tools that ran (digest -> files; none if there may have
    been others, such as scripts), digests of contents by the status that their file had; `everywhere`: would it be the
    same in any checkout? `anywhere`: on any machine? `asked`: the keys that were asked for, if there is a remote."""

    began: float
    outputs: Outputs
    depends: tuple[Watched, ...]
    uses: tuple[tuple[bool, str], ...]
    tools: Mapping[str, tuple[str, ...]]
    digests: Mapping[Status, str]
    everywhere: bool = False
    anywhere: bool = False
    asked: tuple[str, ...] = ()


@dataclass(frozen=True)
class Indirect:
    """In place of a provenance: the next compile of the same command goes to the engine, even if nothing changes.
    `why`: in words."""

    why: str


def provenance_of(
    session: Session,
    asked: Asked | AskedToAssemble,
    graph: Graph,
    ends: Mapping[str, End],
    passes: Collection[Slot] = (),
) -> Provenance | Indirect:
    """The compile; indirect if not all is known that the outputs of the graph depended on, or some of it has changed.
    `passes`: over a source."""
    try:
        depends = watched.merge(_depends(session, asked, ends, passes))
    except (Untraceable, OSError) as error:
        return Indirect(str(error))
    for one in depends:
        if one.kind == FILE and one.path.startswith(_KERNELS):
            return Indirect(f"it reads '{one.path}', whose content comes from the kernel")
    delivered = [(one, ends[one.output.action].hash(one.output.name)) for one in delivery.written(graph, ends)]
    outputs = Outputs(
        tuple(Rule(one.path, delivery.rule_text(one, ends)) for one in graph.rules),
        tuple(Output(one.path, digest, one.executable) for one, digest in delivered),
    )
    cached = [end for end in ends.values() if end.bound.action.policy.cache is not Cache.NEVER and not end.missing]
    uses = [(True, end.bound.key.digest) for end in cached]
    uses += [(False, digest.hash) for end in cached for digest in end.result.outputs.values()]
    read = {end.result.reads for end in cached if end.result.reads}
    uses += [(False, digest) for digest in sorted(read)]
    sets = [found for found in map(session.shelves.reads.get, read) if found]
    used, tools, digests = tuple(dict.fromkeys(uses)), surroundings.tools_of(session, asked), _digests(session, sets)
    everywhere = bool(passes) and _is_everywhere(session, cached)
    keys = tuple(session.shelves.noted.got_keys) if session.shelves.noted else ()
    anywhere = bool(keys and passes) and surroundings.is_of_any_machine(session, asked)
    return Provenance(session.began, outputs, depends, used, tools, digests, everywhere, anywhere, keys)


def _is_everywhere(session: Session, cached: Sequence[End]) -> bool:
    """Does the engine share between checkouts what each unit came to? And is the CUID the same there?"""
    command, path = session.command, session.engine.basedir and session.files.basedir.path
    named = [word for word in command.arguments if path in word]
    if not path or command.unwrapped or any(word.startswith("-fuse-cuid") for word in command.arguments):
        return False
    macros = (word + value for _, word, value in words_of(command.arguments) if word.startswith(("-D", "-U")))
    if any("cuid" in word for word in named) or any(path in macro for macro in macros):
        return False
    passes = [end for end in cached if end.bound.action.policy.cache is Cache.MANIFEST]
    return all(
        any(entry.reads == end.result.reads and _holds_everywhere(entry) for entry in unpack(_record(session, end)))
        for end in passes
    )


def _holds_everywhere(entry: Entry) -> bool:
    """Is it the same in every checkout, its messages, too?"""
    return not entry.base and BASEDIR_MARK not in entry.text


def _record(session: Session, end: End) -> bytes | None:
    return session.engine.store.get_action(end.bound.key.digest)


def _digests(session: Session, reads: Iterable[ReadSet]) -> Mapping[Status, str]:
    """The digests of contents, by status; of tools only those of old files: nobody checked whether they changed while
    they were read."""
    old = (session.began - session.engine.racy) * 1e9
    known = session.files.digests(reads)
    for (device, inode, size, modified, changed), digest in session.identities.digests():
        if max(modified, changed) < old:
            known[device, inode, size, modified, changed] = digest
    return known


def together(
    of_each: Sequence[Provenance | Indirect | None], observed: Iterable[Watched]
) -> Provenance | Indirect | None:
    """The compiles of one command, in their order, and what was `observed` for all of them. Indirect if one of them is,
    or if the order in which they are written matters (a dependency file that is another one's object)."""
    known: list[Provenance] = []
    for one in of_each:
        if not isinstance(one, Provenance):
            return one
        known.append(one)
    rules = tuple(rule for one in known for rule in one.outputs.rules)
    files = tuple(file for one in known for file in one.outputs.files)
    if {os.path.realpath(one.path) for one in rules} & {os.path.realpath(one.path) for one in files}:
        return Indirect("one of its outputs is the dependency file of another one")
    depends = watched.merge([*observed, *(path for one in known for path in one.depends)])
    uses = tuple(dict.fromkeys(use for one in known for use in one.uses))
    tools = {digest: paths for one in known for digest, paths in one.tools.items()}
    began = min(one.began for one in known)
    digests = {status: digest for one in known for status, digest in one.digests.items()}
    of_all = tools if all(one.tools for one in known) else {}
    return Provenance(began, Outputs(rules, files), depends, uses, of_all, digests)


def _depends(
    session: Session,
    asked: Asked | AskedToAssemble,
    ends: Mapping[str, End],
    passes: Collection[Slot],
) -> Iterator[Watched]:
    yield from surroundings.of(session, asked)
    # Most architectures read the same files.
    found = {ends[id].result.reads for slot in passes for id in slot if id in ends and not ends[id].missing}
    for digest in sorted(found):
        reads = session.shelves.reads.get(digest) if digest else None
        if reads is None:
            raise Untraceable("the store has no list of the files that were read")
        yield from session.files.watched_reads(reads)
