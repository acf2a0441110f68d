"""Every outcome of a compile. Each has a name, a sentence and a counter, as each reason to pass through (`reasons`)."""

from __future__ import annotations

from collections.abc import Sequence

from hipcache.base import shared
from hipcache.base.values import dataclass, field, replace

HIT = "hit"
PARTIAL = "partial"
MISS = "miss"
PASSED_THROUGH = "passed_through"
FAILED = "failed"
# Of compiles that end here. The others go on in the compiler, or end early.
CACHEABLE = (HIT, PARTIAL, MISS)
OUTCOMES = (*CACHEABLE, PASSED_THROUGH, FAILED)
# The words for people, of one and of several.
WORDS = {
    HIT: ("hit", "hits"),
    PARTIAL: ("partial hit", "partial hits"),
    MISS: ("miss", "misses"),
    PASSED_THROUGH: ("passed through", "passed through"),
    FAILED: ("failed", "failed"),
}

# A hit compared with a fresh compile (HIPCACHE_VERIFY). VARYING: the compiler's own output differs each time.
SAME, DIFFERENT, VARYING = "same", "different", "varying"

# Units that are no offload arch.
HOST, LINK = "host", "link"


@dataclass(frozen=True)
class UnitOutcome:
    """One unit of a compile: `name` is an offload arch ("gfx90a:xnack+"), "host" or "link".

    `frontend` and `backend` are True for a hit, False for a miss, None if the job was not needed
    or does not exist (a host unit has no back end of its own). `hit` is True when the product
    (a code object, the host object) was served. `why` says in words why it missed.
    """

    name: str
    hit: bool
    frontend: bool | None = None
    backend: bool | None = None
    why: tuple[str, ...] = ()
    seconds: float = 0.0

    def as_hit(self) -> UnitOutcome:
        front, back = None if self.frontend is None else True, None if self.name == HOST else True
        return replace(self, hit=True, frontend=front, backend=back, why=())


@dataclass(frozen=True)
class CompileOutcome:
    """The end of one compile. `seconds_saved`: compiler seconds that hits made unnecessary; `preambles`: what
    became of how many precompiled headers; `took`: seconds of the whole compile, 0 if that is not known;
    `check`: is it one of a configure check? `direct`: was it a direct hit?"""

    outcome: str
    reason: str = ""
    detail: str = ""
    units: tuple[UnitOutcome, ...] = ()
    seconds_saved: float = 0.0
    notes: tuple[str, ...] = field(default=())
    preambles: tuple[tuple[str, int], ...] = ()
    took: float = 0.0
    check: bool = False
    direct: bool = False

    def as_hit(self) -> CompileOutcome:
        """The outcome of the same compile when nothing has changed."""
        units = tuple(unit.as_hit() for unit in self.units)
        return replace(self, outcome=HIT, units=units, seconds_saved=sum(unit.seconds for unit in units))


def counted(ends: Sequence[str]) -> str:
    """ "10 misses, 1 partial hit": compiles by how they ended, in the order of OUTCOMES."""
    numbers = {end: ends.count(end) for end in OUTCOMES if end in ends}
    return ", ".join(f"{number} {WORDS[end][number != 1]}" for end, number in numbers.items())


def is_check(path: str) -> bool:
    """Is the object at absolute `path` one of a configure check? native/launcher/launcher.c tells them by the same
    places."""
    return (
        any(directory in path for directory in shared.CHECK_DIRECTORIES) or "/" in path.partition(shared.MESON_CHECK)[2]
    )
