"""What is measured: the scenarios, and what each of them must have done to hipcache's counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from workload import COMMENT, DEVICE_IF, HOST, HOST_AGAIN, Architectures

#: The two ways to build: all sources under ninja with every core busy, and one source by itself.
NINJA, ALONE = "ninja", "alone"
FORMS = (NINJA, ALONE)


class State(Enum):
    """What a tool's store holds before the measured build."""

    EMPTY = "empty"
    BASE = "what the cold build of this round left"
    MANY = "what a build for the large set of architectures left"


class Expect(Enum):
    """Which code objects the measured build has to compile."""

    ALL = "every architecture's"
    NONE = "none"
    ADDED = "the added architecture's"
    EDITED = "the edited architecture's"


@dataclass(frozen=True)
class Scenario:
    """One thing that happens to a project between two builds.

    `plain_as` names a scenario in which plain clang does the very same work (it compiles everything, whatever
    has changed), so that its time is taken from there and minutes are saved. `takes` is the number of measured
    builds in a round: more than one where a build takes milliseconds and leaves the store as it was.
    """

    name: str
    title: str
    state: State
    expect: Expect
    edit: str = ""
    plain_as: str = ""
    takes: int = 1

    def archs(self, sets: Architectures) -> tuple[str, ...]:
        """The architectures of the measured build."""
        return (*sets.many, sets.added) if self.expect is Expect.ADDED else sets.base

    def heading(self, sets: Architectures) -> str:
        """The title with this workload's numbers."""
        return self.title.format(base=len(sets.base), many=len(sets.many))

    def compiled(self, sets: Architectures) -> tuple[str, ...]:
        """The architectures whose code objects a cache by architecture compiles."""
        return {
            Expect.ALL: sets.base,
            Expect.NONE: (),
            Expect.ADDED: (sets.added,),
            Expect.EDITED: (sets.edited,),
        }[self.expect]


SCENARIOS = (
    Scenario("cold", "cold, {base} architectures", State.EMPTY, Expect.ALL),
    Scenario("warm", "warm", State.BASE, Expect.NONE, plain_as="cold", takes=5),
    Scenario("added", "one architecture added to {many}", State.MANY, Expect.ADDED),
    Scenario("subset", "{base} of {many} architectures", State.MANY, Expect.NONE, plain_as="cold"),
    Scenario("host", "host-only edit", State.BASE, Expect.NONE, edit=HOST),
    Scenario("host-again", "next host-only edit", State.BASE, Expect.NONE, edit=HOST_AGAIN, plain_as="host"),
    Scenario("comment", "comment-only edit", State.BASE, Expect.NONE, edit=COMMENT, plain_as="host"),
    Scenario("device-if", "edit in one architecture's #if", State.BASE, Expect.EDITED, edit=DEVICE_IF, plain_as="host"),
)
NAMES = tuple(scenario.name for scenario in SCENARIOS)


def difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """What was counted in between; counters that did not move are left out."""
    moved = {name: after.get(name, 0) - before.get(name, 0) for name in sorted({*before, *after})}
    return {name: count for name, count in moved.items() if count}


def disagreements(scenario: Scenario, counted: Mapping[str, int], sources: int, sets: Architectures) -> list[str]:
    """Where hipcache's counters (`difference` of two `stats --json`) contradict the scenario, in words.

    What is left open, because a better engine may do it differently: front ends and the host part after an
    edit, and whether a compile with no work on the device counts as a hit or a partial hit.
    """
    archs = scenario.archs(sets)
    compiled = scenario.compiled(sets)
    wanted = {"compiles.passed_through": 0, "compiles.failed": 0}
    for arch in archs:
        wanted[f"units.{arch}.misses"] = sources if arch in compiled else 0
        wanted[f"units.{arch}.hits"] = 0 if arch in compiled else sources
    wanted["jobs.backend.misses"] = sources * len(compiled)
    if scenario.state is State.EMPTY:
        wanted["compiles.miss"] = sources
    elif not scenario.edit:
        wanted["units.host.misses"] = 0
        wanted["jobs.frontend.misses"] = sources * len(compiled)
    if not scenario.edit and scenario.expect is Expect.NONE:
        wanted["compiles.hit"] = sources
    return [
        f"{name} is {counted.get(name, 0)} instead of {count}"
        for name, count in wanted.items()
        if counted.get(name, 0) != count
    ]


def by_name(names: Sequence[str]) -> list[Scenario]:
    """The scenarios of that name, in the order in which they are measured."""
    return [scenario for scenario in SCENARIOS if scenario.name in names]
