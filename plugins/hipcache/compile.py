"""The story of one compile, from the command to its outcome: the numbered steps of ARCHITECTURE.md."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from hipcache import atomic
from hipcache.direct.record import Output, Rule
from hipcache.direct.remember import Outputs, Whole, whole_of
from hipcache.engine import Engine
from hipcache.errors import PassThrough
from hipcache.making import assembly, auxiliary, depfile, device, host
from hipcache.making.assembly import Object
from hipcache.making.device import Missing, Product
from hipcache.making.device_link import Linked
from hipcache.outcome import HIT, MISS, PARTIAL, CompileOutcome, UnitOutcome
from hipcache.planning import driver, units, wrapper
from hipcache.planning.cc1 import Role
from hipcache.planning.command import Command, is_stream
from hipcache.planning.cuid import make_cuid
from hipcache.planning.plan import Plan
from hipcache.planning.units import Units
from hipcache.report.history import Record, UnitRecord, why
from hipcache.report.statistics import LINK
from hipcache.session import Damaged, Session, in_session
from hipcache.values import dataclass, replace


@dataclass(frozen=True)
class Made:
    """One source compiled: the driver's plan for it, its units, and what each came to (the devices', then the host's
    where there is one)."""

    plan: Plan
    cut: Units
    products: list[Product]

    @property
    def messages(self) -> str:
        """What the driver and the passes said."""
        return self.plan.messages + "".join(product.text for product in self.products)

    @property
    def files(self) -> tuple[str, ...]:
        """All that the passes read."""
        return tuple(dict.fromkeys(file.path for product in self.products for file in product.dependencies))

    @property
    def names(self) -> list[str]:
        """Of the units: an offload arch, or "host"."""
        return [*(unit.arch for unit in self.cut.devices), *(["host"] if self.cut.host else [])]


@dataclass(frozen=True)
class Compiled:
    """A compile that hipcache did. `messages`: what plain clang would have printed on standard error. `whole`: what a
    direct hit needs, None where not all of that is known; `files`: all that its passes read, as clang names them;
    `plan`: the driver's (None of a link)."""

    outcome: CompileOutcome
    messages: str
    record: Record
    whole: Whole | None
    files: tuple[str, ...]
    plan: Plan | None


def compile(engine: Engine, command: Command, columns: int | None) -> Compiled:
    """Make the object of `command`, and its dependency file.

    `columns`: width of the terminal that will show the messages, None where there is none.

    Raises PassThrough or StoreError where the user's own command must be run instead, and JobFailed where
    it must be run because it fails; in each case nothing has been written.
    """
    if command.assembles:  # among other sources, or for SCons
        raise PassThrough("not_hip", command.source)
    command, engine = wrapper.through_script(engine, command)
    return in_session(engine, command, lambda session: _compile(session, columns))


def _compile(session: Session, columns: int | None) -> Compiled:
    # 1. Ask the driver for its plan, with a CUID that does not depend on the archs.
    command, runner = session.command, session.runner
    cuid = "" if command.own_cuid else cuid_of(session, command.source, command.output)
    asked = driver.ask(command, cuid, session.engine, runner, columns=columns, scratch=lambda: session.workdir)
    plan = asked.plan
    _refuse_links(session, plan)
    made = make(session, plan)
    # 5. Put the object together (or, where each pass has an output of its own, leave them as they are).
    objects = assembly.assemble(session, made.cut, made.products)
    # 6. Write the dependency file, what passes write besides, and the object, each whole or not at all.
    outputs = _deliver(session, made, objects)
    # 7. Say what happened, and what all of it depended on: while none of that changes, the next one is a direct hit.
    record, outcome = tell(session, [made], [], command.path(plan.outputs[0]))
    whole = whole_of(session, asked, made.cut, made.products, outputs)
    return Compiled(outcome, made.messages, record, whole, made.files, plan)


def cuid_of(session: Session, source: str, output: str) -> str:
    """`output` as the command names it; empty where the compiler does."""
    output = output or os.path.splitext(os.path.basename(source))[0] + ".o"
    path, basedir, exists = session.command.path, session.engine.basedir, session.files.is_there
    return make_cuid(path(source), path(output), session.command.macros, basedir=basedir, exists=exists)


def make(session: Session, plan: Plan) -> Made:
    """The units of `plan`, found or made."""
    # 2. Cut the plan into units, and key each with everything that can change its output.
    cut = units.cut(plan, session.identities, session.files, session.engine.environ)
    # 3. Look up each unit; 4. run what is missing, side by side (last a host's pass that takes what the others made).
    return Made(plan, *_products(session, cut))


def _refuse_links(session: Session, plan: Plan) -> None:
    """cc1 and lld put a new file in the place of their output; the bundler writes into the file that is there, also
    through a link, and llvm-objcopy then replaces that."""
    if plan.bundle and not plan.embeds and os.path.islink(session.command.path(plan.outputs[0])):
        raise PassThrough("linked_output", plan.outputs[0])


def _products(session: Session, cut: Units) -> tuple[Units, list[Product]]:
    """The units, now each with its key, and one product for each device unit in the plan's order, the host's last."""
    if not cut.host_is_last:
        return cut, _make_missing(session, cut, _look_up(session, cut))
    devices, bundle = cut.without_host, cut.object
    products = _make_missing(session, devices, _look_up(session, devices))
    cut = cut.with_codes([product.digest for product in products])
    unit = cut.host
    assert unit and bundle
    found = host.find(session, unit)
    if isinstance(found, Missing):
        missing, fat_binary = found, assembly.fat_binary(session, bundle, products)
        found = session.side_by_side({0: lambda: host.make(session, unit, missing, fat_binary)})[0]
    return cut, [*products, found]


def _look_up(session: Session, cut: Units) -> list[Product | Missing]:
    """One for each device unit in the plan's order, the host's last (where there is one)."""
    found = [device.find(session, unit) for unit in cut.devices]
    return [*found, host.find(session, cut.host)] if cut.host else found


def _make_missing(session: Session, cut: Units, found: list[Product | Missing]) -> list[Product]:
    tasks: dict[int, Callable[[], Product]] = {}
    for number, product in enumerate(found):
        if isinstance(product, Missing):
            tasks[number] = _task(session, cut, number, product)
    # In threads also where it is only one: signals reach the main thread, which must not hold one of make's tokens.
    # What is ended removes its files and gives its slots (make's tokens) back; only who waits for another process, and
    # has neither, may take longer than our patience.
    made = session.side_by_side(tasks)
    return [one if isinstance(one, Product) else made[number] for number, one in enumerate(found)]


def _task(session: Session, cut: Units, number: int, missing: Missing) -> Callable[[], Product]:
    front = cut.host
    if front and number == len(cut.devices):
        return lambda: host.make(session, front, missing)
    return lambda: device.make(session, cut.devices[number], missing)


def _deliver(session: Session, made: Made, objects: Sequence[Object]) -> Outputs:
    plan = made.plan
    check_places(session, plan.outputs)
    rules = write_dependencies(session, [made])
    beside = auxiliary.deliver(session, [one for product in made.products for one in product.beside])
    files = [Output(path, digest) for path, digest in beside.items()]
    for output, one in zip(plan.outputs, objects, strict=True):
        path = session.command.path(output)
        write_object(session, one, Path(path))
        if plan.links_alone:
            _make_executable(Path(path))
        files.append(Output(path, one.digest, plan.links_alone))
    return Outputs(rules, tuple(files))


def write_object(session: Session, one: Object, path: Path) -> None:
    if one.content is not None:
        _write_whole(path, one.content)
    elif not session.engine.store.copy_blob(one.digest, path):
        raise Damaged


def check_places(session: Session, outputs: Sequence[str]) -> None:
    """Where the object cannot be written, clang fails, and leaves nothing beside it."""
    for path in map(session.command.path, outputs):
        is_special = os.path.exists(path) and not os.path.isfile(path)  # /dev/null
        if os.path.isdir(path) or not (is_special or os.access(os.path.dirname(path), os.W_OK)):
            raise PassThrough("store", f"'{path}' cannot be written")


def _make_executable(path: Path) -> None:
    """As lld does: who may read it may run it."""
    with suppress(OSError):
        status = path.stat()
        if stat.S_ISREG(status.st_mode):
            path.chmod(stat.S_IMODE(status.st_mode) | (status.st_mode & 0o444) >> 2)


def write_dependencies(session: Session, made: Sequence[Made]) -> tuple[Rule, ...]:
    """The dependency file, if one was asked for: the union over all passes, the host's first. Clang's own file lists
    only what the last source's host pass read."""
    plan = made[-1].plan
    options = [option for option in plan.first.options if option.role is Role.DEPENDENCIES]
    path = plan.first.value(Role.DEPENDENCIES, "-dependency-file")
    if not path:
        return ()
    whole = session.command.path(path)
    if path == "-" or (is_stream(whole) and os.path.realpath(whole) != os.devnull):
        raise PassThrough("standard_streams", f"-MF {path}")  # a rule for each pass
    targets = [o.value if o.name == "-MT" else depfile.quote(o.value) for o in options if o.name in ("-MT", "-MQ")]
    everything = any(option.role is Role.DEPENDENCY_STYLE for option in plan.first.options)
    lists = [
        [file.path for file in product.dependencies if everything or not file.system]
        for one in reversed(made)
        for product in ((one.products[-1], *one.products[:-1]) if one.plan.host else one.products)
    ]
    phony = any(option.name == "-MP" for option in options)
    rule = depfile.write(targets, depfile.union(lists), phony=phony, clang=plan.clang)
    # As clang does, which replaces an object that is a link, and writes through a dependency file that is one.
    content = os.fsencode(rule)
    _write_whole(Path(whole), content, through_links=True)
    return (Rule(whole, content),)


def _write_whole(path: Path, content: bytes, *, through_links: bool = False) -> None:
    try:
        atomic.write_whole(path, content, through_links=through_links)
    except OSError as error:
        raise PassThrough("store", f"'{path}': {error.strerror}") from error


def tell(session: Session, made: Sequence[Made], codes: Sequence[Linked], path: str) -> tuple[Record, CompileOutcome]:
    """How each unit ended, and why those that missed did: compared with the last compile of this object or program.
    `codes`: of the device links. Each counts as a link, and its arch as one that was served or not."""
    products = [product for one in made for product in one.products]
    ends: list[Product | Linked] = [*products, *codes]
    old = session.last(path) if any(one.why for one in ends) else None
    told = [record for one in made for record in _units(session, one, old, apart=len(made) > 1)]
    told += _links(session, codes, old, apart=bool(made))
    hits, jobs = sum(unit.hit for unit in told), sum(bool(unit.frontend) for unit in told)
    end = HIT if all(one.hit for one in ends) else PARTIAL if hits or jobs else MISS
    record = session.record(path, end, told)
    names: list[tuple[str, ...]] = [(name,) for one in made for name in one.names]
    names += [(code.unit.arch, LINK) for code in codes]
    outcomes = tuple(
        UnitOutcome(name, unit.hit, unit.frontend, unit.backend, unit.why, one.seconds)
        for counted, unit, one in zip(names, told, ends, strict=True)
        for name in counted
    )
    saved = sum(one.seconds for one in ends if one.hit)
    return record, CompileOutcome(end, units=outcomes, seconds_saved=saved, notes=record.notes)


def _units(session: Session, made: Made, old: Record | None, *, apart: bool) -> Iterator[UnitRecord]:
    """`apart`: are they of one source among others?"""
    fronts = [(unit.front, unit.inputs) for unit in made.cut.devices] + ([(made.cut.host, ())] if made.cut.host else [])
    for name, (front, more), product in zip(made.names, fronts, made.products, strict=True):
        told = f"{name} of '{front.source}'" if apart else name
        served = product.hit or product.back is True
        unit = UnitRecord(told, served, product.front, product.back, (), (*front.key.inputs, *more), product.reads)
        yield _explained(session, unit, product.why, old)


def _links(session: Session, codes: Sequence[Linked], old: Record | None, *, apart: bool) -> Iterator[UnitRecord]:
    """`apart`: are there other units of the same archs?"""
    for code in codes:
        told = f"link of {code.unit.arch}" if apart else code.unit.arch
        unit = UnitRecord(told, code.hit, None, None, (), code.unit.key.inputs, "")
        yield _explained(session, unit, code.why, old)


def _explained(session: Session, unit: UnitRecord, missed: str, old: Record | None) -> UnitRecord:
    """`missed`: why it is no hit; empty for one."""
    return replace(unit, why=why(unit, missed, old, session.variables(), session.read_set)) if missed else unit
