"""Every way in which a compile can end, and every reason why one is left to the compiler.

Each ending has a name, a sentence and a counter: what is not listed here cannot be counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

HIT = "hit"
PARTIAL = "partial"
MISS = "miss"
PASSED_THROUGH = "passed_through"
FAILED = "failed"
OUTCOMES = (HIT, PARTIAL, MISS, PASSED_THROUGH, FAILED)


@dataclass(frozen=True)
class UnitOutcome:
    """One unit of a compile: `name` is an offload arch ("gfx90a:xnack+"), "host" or "link".

    `frontend` and `backend` are True for a hit, False for a miss, None where the job was not needed
    or does not exist (a host unit has no back end of its own). `hit` is True when the product
    (a code object, the host object) was served. `why` says in words why it missed.
    """

    name: str
    hit: bool
    frontend: bool | None = None
    backend: bool | None = None
    why: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class CompileOutcome:
    """The end of one compile. `seconds_saved`: compiler seconds that hits made unnecessary."""

    outcome: str
    reason: str = ""
    detail: str = ""
    units: tuple[UnitOutcome, ...] = ()
    seconds_saved: float = 0.0
    notes: tuple[str, ...] = field(default=())
