"""Processes that are started, limited in number, and watched; what they say, and the table of those that run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

from hipcache.base.values import dataclass

# The ways to look at a path.
STAT, LINK, READ, LIST = "stat", "link", "read", "list"
# What is no path (the root stands for one): the processor, by instructions that no list shows
# (native/direct/processor.c).
PROCESSOR = "processor"
# The kernel lists the AMD GPUs here (ROCm's libraries also look through all of PCI, and for memory nodes): files that
# can be looked at again, unlike all else that is asked of the machine.
GPUS = ("/sys/class/kfd/", "/sys/bus/pci", "/sys/devices/")
# The signals that end a compile.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def decode(said: bytes) -> str:
    """The text of what a compiler says: bytes of its own choice, whatever the locale. Users of all locales share the
    records with it."""
    return said.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """The bytes of `decode`. Raises ValueError for a text that is none of its."""
    return text.encode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class RunningProcess:
    """A line of /proc/PID/stat (proc(5)). `started`: in ticks since the system began."""

    number: int
    name: str
    parent: int
    session: int
    terminal: int
    started: str


def running_processes() -> Iterator[RunningProcess]:
    """Those that can be seen."""
    for name in os.listdir("/proc"):
        process = find_process(int(name)) if name.isdecimal() else None
        if process:
            yield process


def find_process(number: int) -> RunningProcess | None:
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
