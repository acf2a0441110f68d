"""The subcommands over a store, with what they print."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from hipcache.cli import Console, dispatch
from hipcache.report.outcome import CompileOutcome, UnitOutcome

MISS = CompileOutcome(
    "miss",
    units=(
        UnitOutcome("gfx1030", False, False, False),
        UnitOutcome("gfx906", False, False, False),
        UnitOutcome("host", False, False),
    ),
)
PARTIAL = CompileOutcome(
    "partial",
    units=(
        UnitOutcome("gfx1030", True, True, None),
        UnitOutcome("gfx906", False, True, False),
        UnitOutcome("host", True, True),
    ),
    seconds_saved=125,
)
PASSED = CompileOutcome("passed_through", reason="linking")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Shell:
    """Runs subcommands on a store of its own."""

    def __init__(self, root: Path) -> None:
        self.dir = root / "cache"
        self.environ = {"HOME": str(root), "HIPCACHE_DIR": str(self.dir), "PATH": os.environ["PATH"]}
        self.out = ""
        self.err = ""

    def __call__(self, *argv: str, terminal: bool = False, **environ: str) -> int:
        out, err = (Terminal() if terminal else io.StringIO()), io.StringIO()
        status = dispatch(argv, Console({**self.environ, **environ}, out, err))
        self.out, self.err = out.getvalue(), err.getvalue()
        return status


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]
