"""The story of one link with relocatable device code: as `compile`, in the numbered steps of ARCHITECTURE.md.

Only the device links (the LTO of each arch) are kept. All else is run each time, as the driver's plan has it: taking
objects apart, the bundle, and the host's linker, which has the last word on what the program is.
"""

from __future__ import annotations

from functools import partial

from hipcache.compile import Compiled
from hipcache.engine import Engine
from hipcache.errors import PassThrough
from hipcache.inputs.identity import is_script
from hipcache.making import bundled_link, device_link, wrapped_link
from hipcache.making.device_link import Linked, Unit
from hipcache.outcome import HIT, MISS, PARTIAL, CompileOutcome, UnitOutcome
from hipcache.planning import driver, tools
from hipcache.planning.command import Command
from hipcache.planning.wrapper_plan import WrapperPlan
from hipcache.report.history import Record, UnitRecord, why
from hipcache.report.statistics import LINK
from hipcache.session import Session, in_session
from hipcache.values import replace


def link(engine: Engine, command: Command, columns: int | None) -> Compiled:
    """Make the program of `command`. Raises as `compile` does; what the host's linker has written by then is what it
    would have written for the compiler, too."""
    if is_script(tools.which(command.compiler, command.cwd, engine.environ)):
        raise PassThrough("wrapper", "a script that links may do more than that")
    return in_session(engine, command, lambda session: _link(session, columns))


def _link(session: Session, columns: int | None) -> Compiled:
    # 1. Ask the driver for its plan.
    plan = driver.ask_link(session.command, session.engine, session.runner, columns=columns, scratch=session.workdir)
    # 2. Take objects and libraries apart, and key each device link with all that goes in.
    if isinstance(plan, WrapperPlan):
        units, finish = wrapped_link.units(session, plan), partial(wrapped_link.finish, session, plan)
    else:
        units, finish = bundled_link.units(session, plan), partial(bundled_link.finish, session, plan)
    # 3. Look up each; 4. link what is missing, side by side.
    codes = _link_missing(session, units)
    # 5. Put the fat binary together; 6. have the host's linker write the program.
    messages = finish(units, codes, columns=columns)
    # 7. Say what happened.
    record = _tell(session, plan.output, units, codes)
    return Compiled(_outcome(record, codes), messages, record, None, (), None)


def _link_missing(session: Session, units: list[Unit]) -> list[Linked]:
    codes = {number: found for number, unit in enumerate(units) if (found := device_link.find(session, unit.key))}
    tasks = {
        number: partial(device_link.make, session, unit) for number, unit in enumerate(units) if number not in codes
    }
    made = session.side_by_side(tasks)
    return [codes[number] if number in codes else made[number] for number in range(len(units))]


def _tell(session: Session, output: str, units: list[Unit], codes: list[Linked]) -> Record:
    path = session.command.path(output)
    old = None if all(code.hit for code in codes) else session.last(path)
    told = []
    for unit, code in zip(units, codes, strict=True):
        record = UnitRecord(unit.arch, code.hit, None, None, (), unit.key.inputs, "")
        if not code.hit:
            record = replace(record, why=why(record, code.why, old, session.variables(), session.read_set))
        told.append(record)
    end = HIT if all(c.hit for c in codes) else PARTIAL if any(c.hit for c in codes) else MISS
    return session.record(path, end, told)


def _outcome(record: Record, codes: list[Linked]) -> CompileOutcome:
    """Each arch counts as one that was served or not, and as a device link."""
    units = []
    for unit, code in zip(record.units, codes, strict=True):
        units += [UnitOutcome(name, unit.hit, None, None, unit.why, code.seconds) for name in (unit.name, LINK)]
    saved = sum(code.seconds for code in codes if code.hit)
    return CompileOutcome(record.outcome, units=tuple(units), seconds_saved=saved, notes=record.notes)
