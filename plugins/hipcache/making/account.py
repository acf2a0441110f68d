"""The account of a compile or link: how each unit ended, and why those that missed did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hipcache.making.device import Product
from hipcache.making.device_link import Linked
from hipcache.making.one_source import Made
from hipcache.outcome import HIT, MISS, PARTIAL, CompileOutcome, UnitOutcome
from hipcache.report.history import Record, UnitRecord, why
from hipcache.report.statistics import LINK
from hipcache.session import Session
from hipcache.values import replace


def of(session: Session, made: Sequence[Made], codes: Sequence[Linked], path: str) -> tuple[Record, CompileOutcome]:
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
    outcome = CompileOutcome(end, units=outcomes, seconds_saved=saved, notes=record.notes)
    return record, replace(outcome, reason="unobserved") if session.unobserved else outcome


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
