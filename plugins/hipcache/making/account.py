"""The account of a compile or link: how each unit ended, and why those that missed did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hipcache.making.one_source import Made
from hipcache.model.end import End
from hipcache.model.graph import Graph
from hipcache.outcome import HIT, MISS, PARTIAL, CompileOutcome, UnitOutcome
from hipcache.report.history import Record, UnitRecord, why
from hipcache.session import Session
from hipcache.values import dataclass, replace


@dataclass(frozen=True)
class Ended:
    """A unit that is counted under `names`. `hit`: was all of it served? `missed`: why not; empty for a hit."""

    unit: UnitRecord
    names: tuple[str, ...]
    hit: bool
    missed: str
    seconds: float


def of_graph(session: Session, graph: Graph, ends: Mapping[str, End]) -> tuple[Record, CompileOutcome]:
    return _of(session, list(_actions(graph, ends)), graph.path)


def of(session: Session, made: Sequence[Made], path: str) -> tuple[Record, CompileOutcome]:
    return _of(session, [unit for one in made for unit in _units(one, apart=len(made) > 1)], path)


def of_program(
    session: Session, made: Sequence[Made], graph: Graph, ends: Mapping[str, End]
) -> tuple[Record, CompileOutcome]:
    """`graph`: of the link."""
    units = [unit for one in made for unit in _units(one, apart=len(made) > 1)]
    return _of(session, [*units, *_actions(graph, ends)], graph.path)


def _of(session: Session, units: Sequence[Ended], path: str) -> tuple[Record, CompileOutcome]:
    """How each unit ended, and why those that missed did: compared with the last compile of this object or program."""
    old = session.last(path) if any(one.missed for one in units) else None
    told = [_explained(session, one, old) for one in units]
    hits, jobs = sum(unit.hit for unit in told), sum(bool(unit.frontend) for unit in told)
    end = HIT if all(one.hit for one in units) else PARTIAL if hits or jobs else MISS
    record = session.record(path, end, told)
    outcomes = tuple(
        UnitOutcome(name, unit.hit, unit.frontend, unit.backend, unit.why, one.seconds)
        for unit, one in zip(told, units, strict=True)
        for name in one.names
    )
    saved = sum(one.seconds for one in units if one.hit)
    outcome = CompileOutcome(end, units=outcomes, seconds_saved=saved, notes=record.notes)
    return record, replace(outcome, reason="unobserved") if session.unobserved else outcome


def _units(made: Made, *, apart: bool) -> Iterator[Ended]:
    """`apart`: are they of one source among others?"""
    fronts = [(unit.front, unit.inputs) for unit in made.cut.devices] + ([(made.cut.host, ())] if made.cut.host else [])
    for name, (front, more), product in zip(made.names, fronts, made.products, strict=True):
        told = f"{name} of '{front.source}'" if apart else name
        served, inputs = product.hit or product.back is True, (*front.key.inputs, *more)
        unit = UnitRecord(told, served, product.front, product.back, (), inputs, product.reads)
        yield Ended(unit, (name,), product.hit, product.why, product.seconds)


def _actions(graph: Graph, ends: Mapping[str, End]) -> Iterator[Ended]:
    for unit in graph.units:
        end = ends[unit.action]
        backend = end.hit if unit.backend else None
        record = UnitRecord(unit.told, end.hit, None, backend, (), end.bound.key.inputs, "")
        yield Ended(record, unit.names, end.hit, end.why, end.result.seconds)


def _explained(session: Session, one: Ended, old: Record | None) -> UnitRecord:
    if not one.missed:
        return one.unit
    return replace(one.unit, why=why(one.unit, one.missed, old, session.variables(), session.read_set))
