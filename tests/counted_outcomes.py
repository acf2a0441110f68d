"""Outcomes to count, and what a log of statistics has of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipcache.report import statistics
from hipcache.report.outcome import CompileOutcome, UnitOutcome

HIT = CompileOutcome("hit", units=(UnitOutcome("gfx90a:xnack+", True, True, True), UnitOutcome("host", True)))
PARTIAL = CompileOutcome(
    "partial",
    units=(
        UnitOutcome("gfx906", True, False, True),
        UnitOutcome("gfx90a:xnack+", False, False, False),
        UnitOutcome("host", False, False),
    ),
    seconds_saved=2.5,
)
PASSED = CompileOutcome("passed_through", reason="it names several sources")


def total(root: Path) -> int:
    return sum(statistics.read(root).compiles.values())


def directory(root: Path) -> Path:
    return root / "v2/statistics"


@pytest.fixture
def folds_at(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Fold after every few lines instead of some 500."""
    monkeypatch.setattr(statistics, "FOLD_AT", 400)
    return monkeypatch
