"""How many compilers this process has room for, by its cores and its memory.

A device compile of a large kernel takes 1 to 3 GB. With fewer than 2 GiB for each core (a laptop, a CI container) as
many compilers as cores would be ended by the kernel, and with them the build.

A container, a job of a batch system and a unit of systemd are limited by a control group, or by one of those above it
(kernel documentation: "Control Group v2", memory.max and cpu.max; version 1: memory.limit_in_bytes, cpu.cfs_quota_us).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence

MEMORY_EACH = 2 << 30


def compilers(cores: int, memory: int) -> int:
    """At most one for each core, and for each `MEMORY_EACH` bytes of `memory` (0: not known)."""
    return max(1, min(cores, memory // MEMORY_EACH)) if memory else cores


def memory(within: Sequence[str] | None = None) -> int:
    """Bytes that a process in these control groups (None: this process's) may use, 0 if that is not known."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for group in groups() if within is None else within:
        for name in ("memory.max", "memory.limit_in_bytes"):
            limits += [number for number in _numbers(f"{group}/{name}")[:1] if number > 0]
    return max(0, min(limits))


def cores(within: Sequence[str] | None = None) -> int:
    """Those on which it may run at once; a part of a core counts as one."""
    limits = [len(os.sched_getaffinity(0))]
    for group in groups() if within is None else within:
        quota = _numbers(f"{group}/cpu.max")  # the quota and its period in microseconds
        quota = quota or _numbers(f"{group}/cpu.cfs_quota_us") + _numbers(f"{group}/cpu.cfs_period_us")
        if len(quota) == 2 and min(quota) > 0:
            limits.append(math.ceil(quota[0] / quota[1]))
    return min(limits)


def groups(process: str = "/proc/self") -> list[str]:
    """The directories of the control groups that the process is in, and of all above them that it can see."""
    paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in _lines(f"{process}/cgroup"))}
    found: list[str] = []
    for line in _lines(f"{process}/mountinfo"):  # proc_pid_mountinfo(5)
        before, _, behind = line.partition(" - ")
        kind, _, options = behind.split(" ", 2)
        root, place = before.split(" ")[3:5]
        for controllers, path in paths.items():
            names = set(controllers.split(","))
            version1 = kind == "cgroup" and names & {"memory", "cpu"} and names <= set(options.split(","))
            if version1 or (kind == "cgroup2" and not controllers):
                found += _upwards(place, root.rstrip("/"), path)
    return found


def _upwards(place: str, root: str, path: str) -> Iterator[str]:
    """The directories of a group and of those above it, where `place` is that of `root`."""
    while path.startswith(root + "/") and path != "/" and "/.." not in path:
        yield place + path[len(root) :]
        path = path.rpartition("/")[0]
    yield place


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _numbers(path: str) -> list[int]:
    """Those in a file of one line; none if one of its words is none ("max": there is no limit)."""
    words = " ".join(_lines(path)).split()
    return [int(word) for word in words] if all(word.lstrip("-").isdigit() for word in words) else []
