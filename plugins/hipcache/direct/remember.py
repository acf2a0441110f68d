"""Remembers a whole compile for direct hits: collects what it depended on, and writes its record."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hipcache.direct import guards, variables
from hipcache.direct.record import DirectRecord, is_of_system, key, state_digest, system_digest
from hipcache.engine import Engine
from hipcache.errors import StoreError
from hipcache.inputs import watched
from hipcache.inputs.trace import Untraceable
from hipcache.inputs.watched import ABSENT, FILE, LINK, Watched
from hipcache.making.device import Product
from hipcache.outcome import HIT, CompileOutcome
from hipcache.planning import tools
from hipcache.planning.answers import VOLATILE
from hipcache.planning.command import Command, Unwrapped
from hipcache.planning.driver import Asked
from hipcache.planning.frontend import FrontEnd
from hipcache.planning.units import Units
from hipcache.report import statistics
from hipcache.session import Session
from hipcache.values import dataclass, replace

# What the kernel says in a file there changes without the file's status.
_KERNELS = ("/proc/", "/sys/")


@dataclass(frozen=True)
class Outputs:
    """What a compile wrote: the paths (absolute) of object and dependency file (empty where none was asked for), the
    object's digest, the file's content."""

    object: str
    blob: str
    dependencies: str
    rule: bytes


@dataclass(frozen=True)
class Whole:
    """A whole compile: what it wrote, what it depended on in the file system, what of the store it used (action or
    not, digest), and the tools that ran (digest -> files; none where there may have been others, such as scripts)."""

    outputs: Outputs
    depends: tuple[Watched, ...]
    uses: tuple[tuple[bool, str], ...]
    tools: Mapping[str, tuple[str, ...]]


def whole_of(session: Session, asked: Asked, cut: Units, products: Sequence[Product], outputs: Outputs) -> Whole | None:
    """None where not all is known that it depended on, or some of that has changed; and for several outputs, or one
    that must be executable: the engine serves those."""
    if len(asked.plan.outputs) != 1 or asked.plan.links_alone or (cut.object and not cut.object.tools_beside):
        return None
    fronts = [*(unit.front for unit in cut.devices), *([cut.host] if cut.host else [])]
    if any(front.auxiliary for front in fronts):
        return None
    try:
        depends = watched.merge(_depends(session, asked, fronts, products))
    except (Untraceable, OSError):
        return None
    if any(one.kind == FILE and one.path.startswith(_KERNELS) for one in depends):
        return None
    keys = [(front.key.digest, one.back_key) for front, one in zip(fronts, products, strict=True)]
    uses = [(True, one) for pair in keys for one in pair]
    if cut.object:
        codes = [one.digest for one in products[: len(cut.devices)]]
        uses += [(True, cut.object.key(codes, products[-1].digest if cut.host else "").digest)]
    uses += [(False, digest) for one in products for digest in (one.digest, one.reads)]
    return Whole(outputs, depends, tuple(dict.fromkeys(one for one in uses if one[1])), _tools(session, asked))


def _tools(session: Session, asked: Asked) -> Mapping[str, tuple[str, ...]]:
    tools = session.identities.contents()
    own = {os.path.realpath(files[0]) for files in tools.values()}
    known = os.path.realpath(asked.program) in own and not session.command.unwrapped
    return tools if known and all(map(variables.is_native, own)) else {}


def remember(
    engine: Engine,
    argv: Sequence[str],
    cwd: str,
    environ: Mapping[str, str],
    whole: Whole,
    *,
    messages: bytes,
    ended: CompileOutcome,
    history: str,
    settings: Path | None,
    system: Sequence[str],
) -> None:
    """Write the record, if nothing has changed meanwhile. `argv`: the command as typed; `environ`: of this process;
    `ended`: how the compile ended; `history`: see `DirectRecord`; `settings`: where the config file is looked for;
    `system`: directories of what is not worked on. Only speed is lost where the record cannot be kept."""
    if settings is None:
        return
    depends = (*whole.depends, Watched(FILE if os.path.lexists(settings) else ABSENT, str(settings)))
    if not all(one.path.startswith("/") for one in depends) or not engine.store.has_blob(whole.outputs.blob):
        return
    old = engine.clock() - engine.racy
    working = (cwd, os.path.dirname(whole.outputs.object))
    far: list[Watched] = []
    near: list[Watched] = []
    for one in depends:
        (far if is_of_system(one.path, system, working) else near).append(one)
    guarded, system_guarded = guards.guard(near, old), guards.guard(far, old)
    files, system_files = watched.state(near, old), watched.look(far, old)
    if files is None or system_files is None:
        return
    foreign = variables.never_asked(environ, whole.tools, engine.memo) if whole.tools else set()
    outputs, ignored = whole.outputs, tuple(sorted(VOLATILE | foreign | {"HIPCACHE_RESIDENT"}))
    record = DirectRecord(
        state_digest(environ, ignored, files),
        ignored,
        outputs.object,
        outputs.blob,
        outputs.dependencies,
        messages,
        statistics.line(_as_hit(ended)),
        history,
        whole.uses,
        guarded,
        system_digest(system_guarded, system_files),
        system_guarded,
        outputs.rule,
    )
    with suppress(StoreError, ValueError):
        engine.store.put_action(key(argv, cwd), record.pack())


def _as_hit(outcome: CompileOutcome) -> CompileOutcome:
    """What the same compile comes to when nothing has changed."""
    units = tuple(
        replace(unit, hit=True, frontend=True, backend=None if unit.name == statistics.HOST else True, why=())
        for unit in outcome.units
    )
    return replace(outcome, outcome=HIT, units=units, seconds_saved=sum(unit.seconds for unit in units))


def _depends(
    session: Session, asked: Asked, fronts: Sequence[FrontEnd], products: Sequence[Product]
) -> Iterator[Watched]:
    command, environ = session.command, session.engine.environ
    if session.notes or not asked.looked or any(word.startswith("@") for word in command.typed):
        raise Untraceable("not all is known")
    for one in (*command.unwrapped, Unwrapped(command.compiler, asked.program, asked.looked)):
        yield from _program(one, command, environ)
        yield from map(watched.of_observation, one.looked)
    yield from session.files.watched()
    yield from session.identities.watched()
    # Most architectures read the same files.
    found = {
        (product.reads, front.comments_matter or bool(product.text))
        for front, product in zip(fronts, products, strict=True)
    }
    for digest, exact in sorted(found):
        reads = session.read_set(digest) if digest else None
        if reads is None:
            raise Untraceable("the store has no list of the files that were read")
        yield from session.files.watched_reads(reads, exact=exact)


def _program(one: Unwrapped, command: Command, environ: Mapping[str, str]) -> Iterator[Watched]:
    """The places where a program is looked for, up to the one where it is."""
    name, program = one.name, one.program
    if tools.which(name, command.cwd, environ) != program:
        raise Untraceable("the compiler is another one by now")
    if "/" not in name:
        for directory in environ.get("PATH", os.defpath).split(":"):
            path = os.path.join(command.cwd, directory, name)
            if path == program:
                break
            yield Watched(FILE if os.path.lexists(path) else ABSENT, path)
    yield Watched(FILE, program)
    yield Watched(LINK, program)
