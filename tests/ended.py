"""What a process, a compile and the counters left behind."""

from __future__ import annotations

from dataclasses import dataclass

HIT, PARTIAL, MISS, PASSED_THROUGH, FAILED = "hit", "partial", "miss", "passed_through", "failed"


@dataclass(frozen=True)
class Ended:
    """What a process left behind."""

    status: int
    out: bytes
    err: bytes


@dataclass(frozen=True)
class Made:
    """What a compile left behind. `object`: None where there is none."""

    ended: Ended
    object: bytes | None
    rule: str


@dataclass(frozen=True)
class Counted:
    """What one compile added to the statistics. `missed`/`served`: the units, by name."""

    outcome: str
    reason: str
    missed: frozenset[str]
    served: frozenset[str]
    front_ends: int
    back_ends: int


@dataclass(frozen=True)
class Compiled:
    """A compile that was the same with hipcache as without. `plain_dependencies` are clang's own."""

    object: bytes
    messages: str
    status: int
    counted: Counted
    dependencies: str
    plain_dependencies: str

    @property
    def outcome(self) -> str:
        return self.counted.outcome
