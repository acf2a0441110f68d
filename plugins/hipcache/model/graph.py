"""A graph: the actions of one command, the outputs that the user gets, and what is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from hipcache.model.action import Action, Bound, Output
from hipcache.model.end import End
from hipcache.model.turns import Gate
from hipcache.values import dataclass


@dataclass(frozen=True)
class Delivery:
    """Write `output` to the absolute `path`. `through_links`: write into an existing file, also through a symbolic
    link? An output that the action did not write is skipped."""

    path: str
    output: Output
    executable: bool = False
    through_links: bool = False


# Alternative passes: the first one that has ended represents them.
Slot = tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """A dependency file at the absolute `path`: what the passes of `slots` read, in that order. `targets` are quoted;
    `everything`: with system headers; `phony`: -MP; `clang`: the major version that it is to look like."""

    path: str
    targets: tuple[str, ...]
    slots: tuple[Slot, ...]
    everything: bool
    phony: bool
    clang: int


@dataclass(frozen=True)
class Unit:
    """A part that is counted and explained: as `label` in messages, and under `names` in the statistics. `action`:
    its last one; `passes` over the source, if there are any; `makers`: those that make the code of what the passes
    give (one that is found suffices). `backend`: does it have a back end? `inputs`: what it is made from, as `explain`
    shows it (empty: as in the key)."""

    action: str
    label: str
    names: tuple[str, ...]
    backend: bool = False
    passes: tuple[str, ...] = ()
    makers: tuple[str, ...] = ()
    inputs: tuple[tuple[str, str], ...] = ()


def _nothing(end: End) -> Iterable[Action]:
    return ()


def _no_gate(missing: Sequence[Bound]) -> None:
    return None


@dataclass(frozen=True)
class Graph:
    """`path`: absolute, of the object or program that the history names it by; `messages`: what the driver said before
    any action. `grow`: the actions that follow from how one has ended. `printed`: whose texts the user reads, in this
    order (none: all actions'). `gate`: see `turns`."""

    actions: tuple[Action, ...]
    deliveries: tuple[Delivery, ...]
    units: tuple[Unit, ...]
    path: str
    messages: str = ""
    grow: Callable[[End], Iterable[Action]] = _nothing
    printed: tuple[Slot, ...] = ()
    rules: tuple[Rule, ...] = ()
    gate: Gate = _no_gate

    def said(self, ends: Mapping[str, End]) -> str:
        """The messages for the user, from the actions that have ended."""
        slots = self.printed or tuple((one.id,) for one in self.actions)
        return self.messages + "".join(end.result.text for end in map(partial(ended, ends), slots) if end)

    def read(self, ends: Mapping[str, End]) -> tuple[str, ...]:
        """All files that the passes read."""
        known = [end for end in map(partial(ended, ends), self.printed) if end]
        return tuple(dict.fromkeys(file.path for end in known for file in end.result.files))


def ended(ends: Mapping[str, End], slot: Slot) -> End | None:
    """The end of the pass that represents the slot."""
    return next((ends[id] for id in slot if id in ends and not ends[id].missing), None)
