"""The story of one compile, from the command to its outcome: the numbered steps of ARCHITECTURE.md."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from hipcache import atomic
from hipcache.direct.record import Output, Rule
from hipcache.direct.remember import Outputs, Whole, whole_of
from hipcache.engine import Engine
from hipcache.errors import PassThrough
from hipcache.making import assembly, depfile, device, host
from hipcache.making.assembly import Object
from hipcache.making.device import Missing, Product
from hipcache.outcome import HIT, MISS, PARTIAL, CompileOutcome, UnitOutcome
from hipcache.planning import driver, units, wrapper
from hipcache.planning.cc1 import Role
from hipcache.planning.command import Command, is_stream
from hipcache.planning.cuid import make_cuid
from hipcache.planning.plan import Plan
from hipcache.planning.units import Units
from hipcache.report.history import Record, UnitRecord, why
from hipcache.session import Damaged, Session, in_session
from hipcache.values import dataclass, replace


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
    command, engine = wrapper.through_script(engine, command)
    return in_session(engine, command, lambda session: _compile(session, columns))


def _compile(session: Session, columns: int | None) -> Compiled:
    # 1. Ask the driver for its plan, with a CUID that does not depend on the archs.
    cuid, runner = _cuid(session), session.runner
    asked = driver.ask(session.command, cuid, session.engine, runner, columns=columns, scratch=lambda: session.workdir)
    plan = asked.plan
    _refuse_links(session, plan)
    # 2. Cut the plan into units, and key each with everything that can change its output.
    cut = units.cut(plan, session.identities, session.files, session.engine.environ)
    # 3. Look up each unit; 4. run what is missing, side by side.
    products = _make_missing(session, cut, _look_up(session, cut))
    # 5. Put the object together (or, where each pass has an output of its own, leave them as they are).
    made = assembly.assemble(session, cut, products)
    # 6. Write the dependency file and the object, each whole or not at all.
    outputs = _deliver(session, plan, made, products)
    # 7. Say what happened, and what all of it depended on: while none of that changes, the next one is a direct hit.
    messages = plan.messages + "".join(product.text for product in products)
    record = _tell(session, cut, products, outputs.files[0].path)
    whole = whole_of(session, asked, cut, products, outputs)
    files = tuple(dict.fromkeys(file.path for product in products for file in product.dependencies))
    return Compiled(_outcome(record, products), messages, record, whole, files, plan)


def _cuid(session: Session) -> str:
    command = session.command
    if command.own_cuid:
        return ""
    output = command.output or os.path.splitext(os.path.basename(command.source))[0] + ".o"
    source = command.path(command.source)
    basedir, exists = session.engine.basedir, session.files.is_there
    return make_cuid(source, command.path(output), command.macros, basedir=basedir, exists=exists)


def _refuse_links(session: Session, plan: Plan) -> None:
    """cc1 and lld put a new file in the place of their output; the bundler writes into the file that is there, also
    through a link, and llvm-objcopy then replaces that."""
    if plan.bundle and not plan.embeds and os.path.islink(session.command.path(plan.outputs[0])):
        raise PassThrough("linked_output", plan.outputs[0])


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


def _deliver(session: Session, plan: Plan, made: Sequence[Object], products: list[Product]) -> Outputs:
    for output in plan.outputs:
        if not os.path.isdir(os.path.dirname(session.command.path(output))):
            raise PassThrough("store", f"'{output}': no such directory")  # nothing is written then
    rules = _write_dependencies(session, plan, products)
    files = []
    for output, one in zip(plan.outputs, made, strict=True):
        name = session.command.path(output)
        path = Path(name)
        if one.content is not None:
            _write_whole(path, one.content)
        elif not session.engine.store.copy_blob(one.digest, path):
            raise Damaged
        if plan.links_alone:
            _make_executable(path)
        files.append(Output(name, one.digest, plan.links_alone))
    return Outputs(rules, tuple(files))


def _make_executable(path: Path) -> None:
    """As lld does: who may read it may run it."""
    with suppress(OSError):
        status = path.stat()
        if stat.S_ISREG(status.st_mode):
            path.chmod(stat.S_IMODE(status.st_mode) | (status.st_mode & 0o444) >> 2)


def _write_dependencies(session: Session, plan: Plan, products: list[Product]) -> tuple[Rule, ...]:
    """The dependency file, if one was asked for: the union over all passes, the host's first. Clang's own file lists
    only what the host's pass read."""
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
        [one.path for one in product.dependencies if everything or not one.system]
        for product in ((products[-1], *products[:-1]) if plan.host else products)
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


def _tell(session: Session, cut: Units, products: list[Product], path: str) -> Record:
    """How each unit ended, and why those that missed did: compared with the last compile of this object."""
    old = session.last(path) if any(product.why for product in products) else None
    units = []
    fronts = [(unit.arch, unit.front, unit.inputs) for unit in cut.devices]
    fronts += [("host", cut.host, ())] if cut.host else []
    for (name, front, more), product in zip(fronts, products, strict=True):
        served = product.hit or product.back is True
        unit = UnitRecord(name, served, product.front, product.back, (), (*front.key.inputs, *more), product.reads)
        if product.why:
            unit = replace(unit, why=why(unit, product.why, old, session.variables(), session.read_set))
        units.append(unit)
    hits, jobs = sum(unit.hit for unit in units), sum(bool(unit.frontend) for unit in units)
    end = HIT if all(product.hit for product in products) else PARTIAL if hits or jobs else MISS
    return session.record(path, end, units)


def _outcome(record: Record, products: list[Product]) -> CompileOutcome:
    units = tuple(
        UnitOutcome(unit.name, unit.hit, unit.frontend, unit.backend, unit.why, product.seconds)
        for unit, product in zip(record.units, products, strict=True)
    )
    saved = sum(product.seconds for product in products if product.hit)
    return CompileOutcome(record.outcome, units=units, seconds_saved=saved, notes=record.notes)
