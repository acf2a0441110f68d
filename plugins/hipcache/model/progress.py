"""How far a graph is built: which actions have ended, which can begin, which must run again."""

from __future__ import annotations

from hipcache.errors import PassThrough
from hipcache.model.action import Action
from hipcache.model.end import End
from hipcache.model.graph import Graph

# How often one action may run again for lost content: something drops all that is stored.
_TRIES = 5


class Progress:
    """`again`: the actions whose results were lost, and how often."""

    def __init__(self, graph: Graph, ends: dict[str, End]) -> None:
        self.ends = ends
        self.again: dict[str, int] = {}
        self._waiting = {action.id: action for action in graph.actions}
        self._actions = dict(self._waiting)

    @property
    def unfinished(self) -> bool:
        return len(self.ends) < len(self._actions)

    def take_ready(self) -> list[Action]:
        ready = [one for one in self._waiting.values() if self.ends.keys() >= one.needs]
        for action in ready:
            del self._waiting[action.id]
        return ready

    @property
    def has_ready(self) -> bool:
        return any(self.ends.keys() >= one.needs for one in self._waiting.values())

    def finish(self, end: End) -> None:
        self.ends[end.bound.action.id] = end

    def reopen(self, lost: set[str], waiting: Action | None = None) -> None:
        """The `lost` ones are to run again, and then the one that is `waiting` for them."""
        for name in lost:
            self.again[name] = self.again.get(name, 0) + 1
            if self.again[name] == _TRIES:
                raise PassThrough("store", "its entries are damaged again and again")
            if self.ends.pop(name, None):
                self._waiting[name] = self._actions[name]
        if waiting:
            self._waiting[waiting.id] = waiting
