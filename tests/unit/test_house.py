"""The rules of the house that no other test holds: one name for one thing, and a tier for each test."""

from __future__ import annotations

from pathlib import Path

import house

TESTS = Path(__file__).parents[1]
# Two classes of one name, which are to go: names leave this list, and none comes.
TWICE = {"Entry", "Notes", "Refused", "Session"}


def test_no_more_classes_share_a_name() -> None:
    assert house.duplicate_classes() <= TWICE


def test_each_test_has_a_tier() -> None:
    assert not [path.name for path in TESTS.glob("test_*.py")]
    assert {path.parent.name for path in TESTS.rglob("test_*.py")} == {"unit", "compile", "integration"}
