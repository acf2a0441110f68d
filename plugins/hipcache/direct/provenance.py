"""The provenance of a compile: what it wrote, and all that it depended on, as a direct hit needs it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from hipcache.base.errors import PassThrough
from hipcache.base.shared import BASEDIR_MARK
from hipcache.base.values import dataclass
from hipcache.build import ActionId, Cache, End, Slot, delivery
from hipcache.cache.entries import unpack
from hipcache.clang.cc1 import Role
from hipcache.clang.command import Command, Unwrapped, expand, words_of
from hipcache.clang.driver import why_unknown
from hipcache.clang.dry_run import Asked, AskedToAssemble
from hipcache.clang.tools import which
from hipcache.direct.record import Output, Outputs, Rule
from hipcache.execution import Planned
from hipcache.execution.session import Session
from hipcache.inputs import variables, watched
from hipcache.inputs.file_manager import Untraceable
from hipcache.inputs.readset import ReadSet, Status, status_of
from hipcache.inputs.watched import ABSENT, FILE, LINK, Watched

# The content of these files comes from the kernel, and changes without their status.
_KERNELS = ("/proc/", "/sys/")
# Processors of the host, where no option names one; "generic" is that of AArch64.
_USUAL = ("", "x86-64", "generic")


@dataclass(frozen=True)
class Provenance:
    """Of one command: when its compile began (seconds of the epoch), what it wrote, which paths it depended on, what
    of the store it used (action or not, digest), the tools that ran (digest -> files; none if there may have
    been others, such as scripts), digests of contents by the status that their file had; `everywhere`: would it be the
    same in any checkout? `anywhere`: on any machine? `asked`: the keys that were asked for, if there is a remote;
    `of_terminal`: are messages as wide as this terminal?"""

    began: float
    outputs: Outputs
    depends: tuple[Watched, ...]
    uses: tuple[tuple[bool, str], ...]
    tools: Mapping[str, tuple[str, ...]]
    digests: Mapping[Status, str]
    everywhere: bool = False
    anywhere: bool = False
    asked: tuple[str, ...] = ()
    of_terminal: bool = False


@dataclass(frozen=True)
class Indirect:
    """In place of a provenance: the next compile of the same command goes to the engine, even if nothing changes.
    `why`: in words."""

    why: str


def provenance_of(session: Session, planned: Planned, ends: Mapping[ActionId, End]) -> Provenance | Indirect | None:
    """The compile, once its graph is built; indirect if not all is known that the outputs of the graph depended on, or
    some of it has changed. None: commands of this kind have no direct hits."""
    asked, graph, passes = planned.answer, planned.graph, planned.slots
    if asked is None:
        return None
    if planned.why_indirect:
        return Indirect(planned.why_indirect)
    try:
        depends = watched.merge(_depends(session, asked, ends, passes))
    except (Untraceable, OSError) as error:
        return Indirect(str(error))
    for entry in depends:
        if entry.kind == FILE and entry.path.startswith(_KERNELS):
            return Indirect(f"it reads '{entry.path}', whose content comes from the kernel")
    delivered = [(file, ends[file.output.action].hash(file.output.name)) for file in delivery.written(graph, ends)]
    outputs = Outputs(
        tuple(Rule(rule.path, delivery.rule_text(rule, ends)) for rule in graph.rules),
        tuple(Output(file.path, digest, file.executable) for file, digest in delivered),
    )
    cached = [end for end in ends.values() if end.bound.action.policy.cache is not Cache.NEVER and not end.missing]
    uses = [(True, end.bound.key.digest) for end in cached]
    uses += [(False, digest.hash) for end in cached for digest in end.result.outputs.values()]
    read = {end.result.reads for end in cached if end.result.reads}
    uses += [(False, digest) for digest in sorted(read)]
    sets = [found for found in map(session.shelves.reads.get, read) if found]
    used, tools, digests = tuple(dict.fromkeys(uses)), _tools_of(session, asked), _digests(session, sets)
    everywhere = bool(passes) and _is_everywhere(session, cached)
    keys = tuple(session.shelves.noted.got_keys) if session.shelves.noted else ()
    anywhere = bool(keys and passes) and _is_of_any_machine(session, asked)
    width = isinstance(asked, Asked) and asked.of_terminal
    return Provenance(session.began, outputs, depends, used, tools, digests, everywhere, anywhere, keys, width)


def _is_everywhere(session: Session, cached: Sequence[End]) -> bool:
    """Does the engine share between checkouts what each unit came to? And is the CUID the same there?"""
    command, path = session.command, session.context.basedir and session.files.basedir.path
    named = [word for word in command.arguments if path in word]
    if not path or command.unwrapped or any(word.startswith("-fuse-cuid") for word in command.arguments):
        return False
    macros = (word + value for _, word, value in words_of(command.arguments) if word.startswith(("-D", "-U")))
    if any("cuid" in word for word in named) or any(path in macro for macro in macros):
        return False
    for end in cached:
        if end.bound.action.policy.cache is Cache.MANIFEST:
            known = unpack(session.context.store.get_action(end.bound.key.digest))
            entries = (entry for entry in known if entry.reads == end.result.reads)
            if all(entry.base or BASEDIR_MARK in entry.text for entry in entries):
                return False
    return True


def _digests(session: Session, reads: Iterable[ReadSet]) -> Mapping[Status, str]:
    """The digests of contents, by status; of tools only those of old files: nobody checked whether they changed while
    they were read."""
    old = (session.began - session.context.racy) * 1e9
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
    for part in of_each:
        if not isinstance(part, Provenance):
            return part
        known.append(part)
    rules = tuple(rule for part in known for rule in part.outputs.rules)
    files = tuple(file for part in known for file in part.outputs.files)
    if {os.path.realpath(file.path) for file in rules} & {os.path.realpath(file.path) for file in files}:
        return Indirect("one of its outputs is the dependency file of another one")
    depends = watched.merge([*observed, *(need for part in known for need in part.depends)])
    uses = tuple(dict.fromkeys(use for part in known for use in part.uses))
    tools = {digest: paths for part in known for digest, paths in part.tools.items()}
    began = min(part.began for part in known)
    digests = {status: digest for part in known for status, digest in part.digests.items()}
    of_all = tools if all(part.tools for part in known) else {}
    return Provenance(began, Outputs(rules, files), depends, uses, of_all, digests)


def _depends(
    session: Session, asked: Asked | AskedToAssemble, ends: Mapping[ActionId, End], passes: Collection[Slot]
) -> Iterator[Watched]:
    yield from _surroundings(session, asked)
    # Most architectures read the same files.
    found = {ends[id].result.reads for slot in passes for id in slot if id in ends and not ends[id].missing}
    for digest in sorted(found):
        reads = session.shelves.reads.get(digest) if digest else None
        if reads is None:
            raise Untraceable("the store has no list of the files that were read")
        yield from session.files.watched_reads(reads)


def _surroundings(session: Session, asked: Asked | AskedToAssemble) -> Iterator[Watched]:
    """All that a compile depended on but what its passes have read: its programs, response files, and named files.
    Raises Untraceable."""
    command, environ = session.command, session.context.environ
    if session.notes or not asked.observations:
        raise Untraceable(next(iter(session.notes), why_unknown(command.arguments)))
    yield from _response_files(command)
    for program in (*command.unwrapped, Unwrapped(command.compiler, asked.program, asked.observations)):
        yield from _program(program, command, environ)
        yield from map(watched.of_observation, program.observations)
    yield from session.files.watched()
    yield from session.identities.watched()


def _response_files(command: Command) -> Iterator[Watched]:
    """Those of the command, which must say what they said when it was read: the driver read them later, and what it
    saw then is watched too."""
    if not {word for word in command.typed if word.startswith("@")} <= set(command.argv):
        raise Untraceable("a script read a response file")
    read: dict[str, os.stat_result] = {}
    try:
        same = expand(command.argv[1:], command.cwd, read) == command.arguments
    except PassThrough as left:
        raise Untraceable(left.detail) from left
    if not same:
        raise Untraceable("a response file changed")
    for path, found in read.items():
        yield Watched(FILE, path, status_of(found))


def _program(unwrapped: Unwrapped, command: Command, environ: Mapping[str, str]) -> Iterator[Watched]:
    """The places where a program is looked for, up to the one where it is."""
    name, program = unwrapped.name, unwrapped.program
    if which(name, command.cwd, environ) != program:
        raise Untraceable("the compiler changed meanwhile")
    if "/" not in name:
        for directory in environ.get("PATH", os.defpath).split(":"):
            path = os.path.join(command.cwd, directory, name)
            if path == program:
                break
            yield Watched(FILE if os.path.lexists(path) else ABSENT, path)
    yield Watched(FILE, program)
    yield Watched(LINK, program)


def _tools_of(session: Session, asked: Asked | AskedToAssemble) -> Mapping[str, tuple[str, ...]]:
    """The tools that ran (digest -> files); none if there may have been others."""
    found = session.identities.contents()
    own = {os.path.realpath(files[0]) for files in found.values()}
    known = os.path.realpath(asked.program) in own and not session.command.unwrapped
    return found if known and all(map(variables.is_native, own)) else {}


def _is_of_any_machine(session: Session, asked: Asked | AskedToAssemble) -> bool:
    """Does the plan follow from the command and from files alone? Not where the driver has looked at the processor
    (`-march=native`) or at the GPUs that are there: so each offload arch, and a processor that is not the usual one,
    must be named by the command or a variable."""
    if not isinstance(asked, Asked) or session.command.unwrapped:
        return False
    plan, command = asked.plan, session.command
    told = [*command.typed, *command.arguments, *session.context.environ.values()]
    processor = plan.host.value(Role.PLAIN, "-target-cpu") if plan.host else ""
    named = [*(device.arch for device in plan.devices), *([] if processor in _USUAL else [processor])]
    return not any("=native" in word for word in told) and all(any(name in word for word in told) for name in named)
