"""The story of one link with relocatable device code: as `compile`, in the numbered steps of ARCHITECTURE.md.

Only the device links (the LTO of each arch) are kept. All else is run each time, as the driver's plan has it: taking
objects apart, the bundle, and the host's linker, which has the last word on what the program is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from hipcache.compile import Compiled
from hipcache.engine import Engine
from hipcache.errors import PassThrough
from hipcache.inputs.identity import is_script
from hipcache.inputs.keys import Key
from hipcache.making import device_link
from hipcache.making.device_link import Linked
from hipcache.outcome import HIT, MISS, PARTIAL, CompileOutcome, UnitOutcome
from hipcache.planning import driver, tools
from hipcache.planning.command import Command
from hipcache.planning.link_plan import LinkPlan
from hipcache.planning.plan import ToolJob
from hipcache.report.history import Record, UnitRecord, why
from hipcache.report.statistics import LINK
from hipcache.session import Damaged, Session, decode, in_session
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
    _take_apart(session, plan)
    keys = [device_link.key(session, plan, one) for one in plan.devices]
    # 3. Look up each; 4. link what is missing, side by side.
    codes = _link_missing(session, plan, keys)
    # 5. Put the fat binary together; 6. have the host's linker write the program.
    said = _put_together(session, plan, codes)
    # 7. Say what happened.
    messages = plan.messages + "".join(code.text for code in codes) + said
    record = _tell(session, plan, keys, codes)
    return Compiled(_outcome(record, codes), messages, record, None, (), None)


def _take_apart(session: Session, plan: LinkPlan) -> None:
    """The driver means to take each object apart twice, once for the host and once for the devices."""
    tasks: dict[int, Callable[[], None]] = {}
    first: dict[tuple[str, ...], tuple[str, ...]] = {}
    again: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    for number, one in enumerate(plan.unbundles):
        same = (one.job.program, *(word for word in one.job.arguments if "output=" not in word))
        if same in first:
            again.append((first[same], one.outputs))
        else:
            first[same] = one.outputs
            tasks[number] = partial(_run_silent, session, f"unbundling of '{one.source}'", one.job)
    session.side_by_side(tasks)
    for have, want in again:
        for source, destination in zip(have, want, strict=True):
            with suppress(OSError):
                os.unlink(session.command.path(destination))
            try:
                os.link(session.command.path(source), session.command.path(destination))
            except OSError:
                shutil.copyfile(session.command.path(source), session.command.path(destination))


def _link_missing(session: Session, plan: LinkPlan, keys: list[Key]) -> list[Linked]:
    codes = {number: found for number, key in enumerate(keys) if (found := device_link.find(session, key))}
    tasks = {
        number: partial(device_link.make, session, plan.devices[number], key)
        for number, key in enumerate(keys)
        if number not in codes
    }
    made = session.side_by_side(tasks)
    return [codes[number] if number in codes else made[number] for number in range(len(keys))]


def _put_together(session: Session, plan: LinkPlan, codes: list[Linked]) -> str:
    """What the host's linker said."""
    # All of them before one that is damaged ends this try: the next one makes all that are.
    copied = [
        session.engine.store.copy_blob(code.digest, Path(session.command.path(one.code)))
        for one, code in zip(plan.devices, codes, strict=True)
        if code.content is None
    ]
    if not all(copied):
        raise Damaged
    _run_silent(session, "bundler", plan.bundle)
    session.write(Path(session.command.path(plan.script_file)), os.fsencode(plan.script))
    _run_silent(session, "llvm-mc", plan.embed)
    # Without a slot: in the main thread a signal could lose it.
    done = session.run_now("host link", [plan.host.program, *plan.host.arguments])
    return device_link.said(session, done.stderr)


def _run_silent(session: Session, name: str, job: ToolJob) -> None:
    done = session.run_now(name, [job.program, *job.arguments])
    if done.stderr:
        raise PassThrough("job_output", f"{name} said: {decode(done.stderr)[:200]}")


def _tell(session: Session, plan: LinkPlan, keys: list[Key], codes: list[Linked]) -> Record:
    path = session.command.path(plan.output)
    old = None if all(code.hit for code in codes) else session.last(path)
    units = []
    for one, key, code in zip(plan.devices, keys, codes, strict=True):
        unit = UnitRecord(one.arch, code.hit, None, None, (), key.inputs, "")
        if not code.hit:
            unit = replace(unit, why=why(unit, code.why, old, session.variables(), session.read_set))
        units.append(unit)
    end = HIT if all(c.hit for c in codes) else PARTIAL if any(c.hit for c in codes) else MISS
    return session.record(path, end, units)


def _outcome(record: Record, codes: list[Linked]) -> CompileOutcome:
    """Each arch counts as one that was served or not, and as a device link."""
    units = []
    for unit, code in zip(record.units, codes, strict=True):
        units += [UnitOutcome(name, unit.hit, None, None, unit.why, code.seconds) for name in (unit.name, LINK)]
    saved = sum(code.seconds for code in codes if code.hit)
    return CompileOutcome(record.outcome, units=tuple(units), seconds_saved=saved, notes=record.notes)
