"""Precompiled preambles as values: which would do for a source, which is there, and what a pass is offered.

A record is JSON {"wanted": n, "spent": seconds, "cost": seconds, "outputs": [hash of the PCH file, of what was seen,
of the read set, of the instances if it has some], "reordered": bool, "startup": text or null, "why": text}; without
outputs it only counts.
`seen` is zlib-compressed JSON: the lists of `Observed`, and "read".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from hipcache.execution.headers import Headers
from hipcache.planning.instances import Instances
from hipcache.values import dataclass, replace

NAME = "precompiled preamble"  # in messages
# Passes that must have missed a preamble before it is made; or so many sources beside must begin alike. It takes the
# time of three passes to make it, and each use saves a little less than one: a build of a few sources must not pay for
# what it does not use.
FIRST = 5
_BESIDE = 6
# A pass without it, the making and the comparison, in times of the pass without it. (A list of instances, which only
# some have, takes one more.)
MAKING = 3
# After one could not be made it is not tried again for so many passes that miss it.
REFUSED_FOR = 64


class Refused(Exception):
    """There cannot be such a preamble, for a reason in words. `for_now`: a file was changing just then."""

    def __init__(self, why: str, *, for_now: bool = False) -> None:
        super().__init__(why)
        self.for_now = for_now


@dataclass(frozen=True)
class Candidate:
    """A preamble that would do for a source: the first `size` bytes of it, which are the includes `names`. `absent`:
    the paths at which the source's own text has some of them sought in vain. `wanted`: how many passes have missed it;
    `spent`: the seconds that it would have saved those that used a shorter one; `cost`: the seconds that it took to
    make it; `startup`: the code that initializes what its headers have (`making.startup`), None if not known yet;
    `why`: it could not be made. `beside`: how many other sources of the directory begin so, if nothing is known of it
    yet. `instantiated`: it has instances of templates (`planning/instances`); `is_rare`: it suits those sources alone
    which others do not suit."""

    key: str
    names: tuple[str, ...]
    size: int
    instantiated: bool = False
    is_rare: bool = False
    absent: frozenset[str] = frozenset()
    wanted: int = 0
    spent: float = 0.0
    cost: float = 0.0
    outputs: tuple[str, ...] = ()
    reordered: bool = False
    startup: str | None = None
    why: str = ""
    beside: int = 0

    def is_due(self, shorter: Candidate | None, noted: int = 0) -> bool:
        """Is it to be made? `shorter`: the one that serves in its place; `noted`: how many of those that have missed
        it were the pass that asks."""
        wanted = self.wanted - noted >= FIRST + self.is_rare or self.beside >= _BESIDE
        return wanted and (not shorter or self.spent >= shorter.cost)

    @property
    def is_refused(self) -> bool:
        """It cannot be made, for a reason that is not soon gone."""
        return self.wanted <= -REFUSED_FOR

    def record(self) -> bytes:
        found = {"wanted": self.wanted, "spent": round(self.spent, 3), "cost": round(self.cost, 3), "why": self.why}
        found |= {"outputs": self.outputs, "reordered": self.reordered, "startup": self.startup}
        return json.dumps(found, separators=(",", ":")).encode()

    def with_record(self, record: bytes | None) -> Candidate:
        """A damaged record counts for none."""
        try:
            found = json.loads(record) if record else {}
            startup = found.get("startup")
            return replace(
                self,
                wanted=int(found.get("wanted", 0)),
                spent=float(found.get("spent", 0)),
                cost=float(found.get("cost", 0)),
                outputs=tuple(map(str, found.get("outputs", []))),
                reordered=bool(found.get("reordered")),
                startup=None if startup is None else str(startup),
                why=str(found.get("why", "")),
            )
        except (ValueError, TypeError, AttributeError):
            return self


@dataclass(frozen=True)
class Preamble:
    """One that is there. `pch`: the file; `headers`: what it was made of; `instances`: of templates, if it has some.
    `reordered`: is bitcode that is made with it another one, of which the back end makes the same?"""

    candidate: Candidate
    pch: Path
    headers: Headers
    instances: Instances | None = None
    reordered: bool = False

    def may_hide_error(self, object_: bytes) -> bool:
        """Does the host's object need a function of the device, which would be an error without the preamble?"""
        return self.headers.devices.are_needed(object_)

    def could_save(self, took: float, read: Sequence[str], size_of: Callable[[str], int]) -> float:
        """The seconds that a longer one would have saved a pass that used this one and `took` so many: those for the
        text of the headers that the pass has read besides, at the rate of what this one was made of and for. `read`:
        all files of the pass, the source first; `size_of`: in bytes."""
        known = set(self.headers.read)
        whole, besides = (sum(map(size_of, paths)) for paths in (known, set(read[1:]) - known))
        return min(took, self.candidate.cost / MAKING * besides / whole) if whole else took


@dataclass(frozen=True)
class Offer:
    """The preambles that a pass may use. `began`: when the source was read for it (seconds of the epoch); `ready`: may
    be used; `is_checked`: is it this one's turn to be compared?; `wanted`: is to be made; `missed`: would have served
    better; `why`: there is none ready."""

    began: float
    ready: Preamble | None = None
    is_checked: bool = False
    wanted: Candidate | None = None
    missed: tuple[Candidate, ...] = ()
    why: str = ""
