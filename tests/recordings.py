"""The plans in tests/plans, which plans/record.sh recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hipcache.base.errors import PassThrough
from hipcache.clang import plan
from hipcache.clang.plan import Plan
from hipcache.report.reasons import REASONS

Parsed = TypeVar("Parsed")

PLANS = Path(__file__).parent / "plans"
ALL = sorted(path.stem for path in PLANS.glob("*.txt"))
LEFT = [name for name in ALL if "-left-" in name]
# Of a part of a compile, or with another end.
SHAPES = [name for name in ALL if "-shape-" in name]
# By the new offload driver, with what its linker wrapper prints (`.printed`).
WRAPPED = [name for name in ALL if "-wrapped-" in name]
LINKS = [name for name in ALL if "-link-" in name]
KNOWN = [name for name in ALL if name not in (*LEFT, *SHAPES, *WRAPPED, *LINKS)]


def text(name: str) -> str:
    return (PLANS / f"{name}.txt").read_text()


def recorded(name: str) -> Plan:
    return plan.parse(text(name))


def parsed_or_left(parse: Callable[[str], Parsed], raw: str) -> Parsed | None:
    """The plan, or None where it is left to the compiler. Nothing else may be raised."""
    try:
        return parse(raw)
    except PassThrough as left:
        assert left.reason in REASONS
        return None


CLANGS = ("clang15", "clang19", "clang22")
