"""What `explain` prints for a compile."""

from __future__ import annotations

import pytest
from hipcache.cli.explain import describe
from hipcache.outcome import OUTCOMES, REASONS
from hipcache.report.history import Record, UnitRecord


def record(end: str, *units: UnitRecord, reason: str = "", detail: str = "", notes: tuple[str, ...] = ()) -> Record:
    return Record("/b/k.o", 0.0, ("clang++", "-c", "k.hip"), "/b", end, reason, detail, notes, {}, units)


def unit(name: str, *why: str, hit: bool = False, back: bool | None = None) -> UnitRecord:
    return UnitRecord(name, hit, not why, back, why, (), "")


@pytest.mark.parametrize("end", OUTCOMES)
def test_the_object_and_the_ending_come_first(end: str) -> None:
    first = describe(record(end))[0]
    assert first.startswith("'/b/k.o', ")
    assert not first.endswith(end) or end == "failed"


@pytest.mark.parametrize("reason", REASONS)
def test_a_compile_that_was_left_says_why_in_a_sentence(reason: str) -> None:
    assert describe(record("passed_through", reason=reason, detail="-x"))[1] == f"  because: {REASONS[reason]} (-x)"


def test_each_unit_has_a_line_and_its_reasons_below_it() -> None:
    lines = describe(record("partial", unit("gfx906", hit=True), unit("host", "file 'x.h' changed", "and more")))
    assert [line.strip() for line in lines[1:]] == ["gfx906  hit", "host    compiled", "file 'x.h' changed", "and more"]


def test_a_device_code_that_came_out_the_same_is_told() -> None:
    assert "its device code is the same" in describe(record("partial", unit("gfx906", "why", hit=True, back=True)))[1]


def test_notes_come_last() -> None:
    assert describe(record("miss", unit("host", "why"), notes=("not stored: full",)))[-1] == "  note: not stored: full"


def test_a_compile_without_an_object_is_named_by_its_command() -> None:
    nameless = Record("", 0.0, ("clang++", "-E", "k.hip"), "/b", "passed_through", "preprocess", "", (), {}, ())
    assert describe(nameless)[0].startswith("'clang++ -E k.hip', ")


def test_the_detail_of_a_failure_is_told() -> None:
    assert describe(record("failed", detail="host ended with status 1"))[1] == "  host ended with status 1"
