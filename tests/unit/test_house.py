"""The rules of the house that no other test holds: one name for one thing, and a tier for each test."""

from __future__ import annotations

from pathlib import Path

import house

TESTS = Path(__file__).parents[1]


def test_no_two_classes_share_a_name() -> None:
    assert house.duplicate_classes() == set()


def test_each_test_has_a_tier() -> None:
    assert not [path.name for path in TESTS.glob("test_*.py")]
    assert {path.parent.name for path in TESTS.rglob("test_*.py")} == {"unit", "compile", "integration"}
