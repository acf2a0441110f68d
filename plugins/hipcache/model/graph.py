"""A graph: the actions of one command, what of their outputs the user gets, and what is told of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from hipcache.model.action import Action, Bound, Output
from hipcache.model.end import End
from hipcache.model.turns import Gate
from hipcache.values import dataclass


@dataclass(frozen=True)
class Delivery:
    """The file at the absolute `path` is to be `output`. `through_links`: is it written into the file that is there?
    One that the action has not written is left out."""

    path: str
    output: Output
    executable: bool = False
    through_links: bool = False


# Passes of which one stands for all: the first that has ended.
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
    """What is counted and explained: as `told` in words, and in the statistics under `names`. `action`: the last one of
    it; `passes` over the source, where there are any; `makers`: those that make the code of what the passes give (one
    that is found suffices). `backend`: does it have a back end? `inputs`: what it is made from, as `explain` shows it
    (empty: as in the key)."""

    action: str
    told: str
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
    any action. `grow`: the actions that follow from how one has ended. `told`: whose texts the user reads, in this
    order (none: all actions'). `gate`: see `turns`."""

    actions: tuple[Action, ...]
    deliveries: tuple[Delivery, ...]
    units: tuple[Unit, ...]
    path: str
    messages: str = ""
    grow: Callable[[End], Iterable[Action]] = _nothing
    told: tuple[Slot, ...] = ()
    rules: tuple[Rule, ...] = ()
    gate: Gate = _no_gate

    def said(self, ends: Mapping[str, End]) -> str:
        """What the user reads, by the actions that have ended."""
        slots = self.told or tuple((one.id,) for one in self.actions)
        return self.messages + "".join(end.result.text for end in map(partial(ended, ends), slots) if end)

    def read(self, ends: Mapping[str, End]) -> tuple[str, ...]:
        """All that the passes read."""
        known = [end for end in map(partial(ended, ends), self.told) if end]
        return tuple(dict.fromkeys(file.path for end in known for file in end.result.files))


def ended(ends: Mapping[str, End], slot: Slot) -> End | None:
    """How the pass ended that stands for the others."""
    return next((ends[id] for id in slot if id in ends and not ends[id].missing), None)
