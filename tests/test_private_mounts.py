"""What a run of tests mounts is nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest
from hip import SESSION


def _mounted(process: str) -> list[str]:
    """Where something is mounted, as that process sees it."""
    return [line.split()[4] for line in Path(f"/proc/{process}/mountinfo").read_text().splitlines()]


def test_the_files_of_a_run_are_in_memory_that_nobody_else_sees() -> None:
    if str(SESSION) not in _mounted("self"):
        pytest.skip("the files of this run are on the disk")
    assert str(SESSION) not in _mounted("1")
