"""The machine under the figures: what it is, and how many of its cores the benchmark uses."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """What figures were measured on. `cores_used` is the number that the benchmark kept itself to."""

    cpu: str
    cores: int
    cores_used: int
    memory_gib: int
    system: str
    load_before: float


def keep_to(cores: int) -> int:
    """Keep this process and all that it starts to `cores` cores, and say how many it got.

    The targets speak of two cores and of a saturated machine; on a large machine four sources saturate nothing.
    """
    allowed = sorted(os.sched_getaffinity(0))
    chosen = allowed[:cores] if cores > 0 else allowed
    os.sched_setaffinity(0, chosen)
    return len(chosen)


def describe(cores_used: int) -> Machine:
    """This machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        cpu=_cpu_model(),
        cores=os.cpu_count() or cores_used,
        cores_used=cores_used,
        memory_gib=round(memory / 2**30),
        system=_system(),
        load_before=round(os.getloadavg()[0], 2),
    )


def _cpu_model() -> str:
    for line in _lines(Path("/proc/cpuinfo")):
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _system() -> str:
    for line in _lines(Path("/etc/os-release")):
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return platform.system()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
