"""The number of compilers that this machine has room for, by its cores and its memory.

A device compile of a large kernel takes 1 to 3 GB. With fewer than 2 GiB for each core (a laptop, a CI container) as
many compilers as cores would be ended by the kernel, and with them the build.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

MEMORY_EACH = 2 << 30
# The limit of a container, by control groups of version 2 and 1 (kernel documentation, "Control Group v2", memory.max).
LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def compilers(cores: int, memory: int) -> int:
    """At most one for each core, and for each `MEMORY_EACH` bytes of `memory` (0: not known)."""
    return max(1, min(cores, memory // MEMORY_EACH)) if memory else cores


def memory(limits: Iterable[str] = LIMITS) -> int:
    """Bytes that this process may use, 0 if that is not known."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for limit in limits:
        try:
            with open(limit, encoding="ascii") as file:
                text = file.read().strip()
        except (OSError, ValueError):
            continue
        if text.isdigit() and int(text) > 0:  # "max": none
            found.append(int(text))
    return max(0, min(found))
