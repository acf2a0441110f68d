"""The processes that run (proc(5))."""

from __future__ import annotations

import os
from collections.abc import Iterator

from hipcache.values import dataclass


@dataclass(frozen=True)
class RunningProcess:
    """A line of /proc/PID/stat. `started`: in ticks since the system began."""

    number: int
    name: str
    parent: int
    session: int
    terminal: int
    started: str


def running() -> Iterator[RunningProcess]:
    """Those that can be seen."""
    for name in os.listdir("/proc"):
        process = find(int(name)) if name.isdecimal() else None
        if process:
            yield process


def find(number: int) -> RunningProcess | None:
    """None if it has ended, or cannot be seen."""
    try:
        with open(f"/proc/{number}/stat", encoding="utf-8", errors="replace") as file:
            before, _, after = file.read().rpartition(")")
        fields = after.split()
        return RunningProcess(
            number, before.partition("(")[2], int(fields[1]), int(fields[3]), int(fields[4]), fields[19]
        )
    except (OSError, ValueError, IndexError):
        return None
