"""The account of a compile or link: the outcome of each unit, and why it missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hipcache.build import End, Graph, Unit
from hipcache.execution.session import Session
from hipcache.processes import encode
from hipcache.report.causes import RECACHED, VARIABLES, why
from hipcache.report.history import Record, UnitRecord
from hipcache.report.outcome import HIT, MISS, PARTIAL, CompileOutcome, UnitOutcome
from hipcache.values import dataclass, replace

if TYPE_CHECKING:
    from hipcache.direct.provenance import Indirect, Provenance


@dataclass(frozen=True)
class Compiled:
    """A compile that hipcache did. `messages`: what plain clang would have printed on standard error. `provenance`: for
    a direct hit, or why there is none (see `Planned`); `files`: all that its passes read, as clang names them;
    `jobs`: how many processes the driver would run for a compile; `has_messages`: did the driver say something
    itself?"""

    outcome: CompileOutcome
    messages: str
    record: Record
    provenance: Provenance | Indirect | None
    files: tuple[str, ...]
    jobs: int = 0
    has_messages: bool = False

    @property
    def said(self) -> bytes:
        """Raises ValueError if the messages are none of a compiler."""
        return encode(self.messages)


@dataclass(frozen=True)
class Ended:
    """A unit that is counted under `names`. `hit`: was all of it served? `missed`: why not; empty for a hit."""

    unit: UnitRecord
    names: tuple[str, ...]
    hit: bool
    missed: str
    seconds: float


def of(session: Session, graphs: Sequence[Graph], ends: Mapping[str, End], path: str) -> tuple[Record, CompileOutcome]:
    """`graphs`: all that belong to the object or program at `path`."""
    return _of(session, [_ended(unit, ends) for graph in graphs for unit in graph.units], path)


def _of(session: Session, units: Sequence[Ended], path: str) -> tuple[Record, CompileOutcome]:
    """The outcome of each unit, and why it missed, compared with the last compile of this object or program."""
    old = session.engine.compared(path) if any(one.missed for one in units) else None
    told = [_explained(session, one, old) for one in units]
    hits, jobs = sum(unit.hit for unit in told), sum(bool(unit.frontend) for unit in told)
    end = HIT if all(one.hit for one in units) else PARTIAL if hits or jobs else MISS
    record = _record(session, path, end, told)
    outcomes = tuple(
        UnitOutcome(name, unit.hit, unit.frontend, unit.backend, unit.why, one.seconds)
        for unit, one in zip(told, units, strict=True)
        for name in one.names
    )
    saved = sum(one.seconds for one in units if one.hit)
    preambles = tuple(sorted(Counter(session.counted).items()))
    outcome = CompileOutcome(end, units=outcomes, seconds_saved=saved, notes=record.notes, preambles=preambles)
    return record, replace(outcome, reason="unobserved") if session.unobserved else outcome


def _record(session: Session, path: str, end: str, units: Sequence[UnitRecord]) -> Record:
    """The record of this compile of `path`."""
    engine, command = session.engine, session.command
    notes = dict.fromkeys([*session.notes, *session.served])
    variables = {name: engine.environ[name] for name in VARIABLES if name in engine.environ}
    made, seals = engine.clock(), (engine.seal.namespace, engine.seal.key)
    return Record(path, made, command.typed, command.cwd, end, "", "", tuple(notes), variables, tuple(units), *seals)


def _ended(unit: Unit, ends: Mapping[str, End]) -> Ended:
    """A unit is a hit if everything that makes its code was found. Its back end is a hit if the code or object was."""
    last = ends[unit.action]
    passes = [ends[id] for id in unit.passes if id in ends and not ends[id].missing]
    makers = [ends[id] for id in unit.makers if id in ends and not ends[id].missing] or [last]
    missed = [end.why for end in (*passes, *makers, last) if not end.hit]
    front = all(end.hit for end in passes) if passes else None
    found = last.hit and makers[0].hit
    back = any(end.hit for end in makers) if unit.backend else None
    counted = {end.bound.action.id: end for end in (*passes, *makers[:1], last)}
    seconds = sum(end.result.seconds for end in counted.values())
    record = UnitRecord(
        unit.label,
        found or back is True,
        front,
        back,
        (),
        unit.inputs or last.bound.key.inputs,
        passes[0].result.reads if passes else "",
        round(seconds, 3),
    )
    why = missed[0] if missed and not (front and back) else ""
    return Ended(record, unit.names, found, why, seconds)


def _explained(session: Session, one: Ended, old: Record | None) -> UnitRecord:
    if not one.missed:
        return one.unit
    engine = session.engine
    if engine.recache:
        return replace(one.unit, why=(RECACHED,))
    seals = engine.seal.namespace, engine.seal.key
    return replace(one.unit, why=why(one.unit, one.missed, old, engine.environ, session.shelves.reads.get, *seals))
