"""A graph: the actions of one command, what of their outputs the user gets, and what is told of them."""

from __future__ import annotations

from collections.abc import Mapping

from hipcache.model.action import Action, Output
from hipcache.model.end import End
from hipcache.values import dataclass


@dataclass(frozen=True)
class Delivery:
    """The file at the absolute `path` is to be `output`."""

    path: str
    output: Output


@dataclass(frozen=True)
class Unit:
    """An action that is counted and explained: as `told` in words, and in the statistics under `names`. `backend`: does
    it stand for the back end of its arch?"""

    action: str
    told: str
    names: tuple[str, ...]
    backend: bool = False


@dataclass(frozen=True)
class Graph:
    """`path`: absolute, of the object or program that the history names it by; `messages`: what the driver said before
    any action."""

    actions: tuple[Action, ...]
    deliveries: tuple[Delivery, ...]
    units: tuple[Unit, ...]
    path: str
    messages: str = ""

    def said(self, ends: Mapping[str, End]) -> str:
        """What the user reads, by the actions that have ended."""
        return self.messages + "".join(ends[one.id].result.text for one in self.actions if one.id in ends)
