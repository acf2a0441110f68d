"""The progress of a graph: which actions have ended, can begin, or must run again."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hipcache.errors import PassThrough
from hipcache.model.action import Action, Bound, File, Output
from hipcache.model.end import End
from hipcache.model.graph import Graph

# One action may run again so often for lost content. Beyond that, something deletes all stored content.
_TRIES = 5


class Progress:
    """`ends`: how the finished actions ended."""

    def __init__(self, graph: Graph, ends: dict[str, End]) -> None:
        self.ends = ends
        self._again: dict[str, int] = {}  # whose results were lost, and how often
        self._grow = graph.grow
        self._is_wanted: Callable[[Action], bool] = lambda action: True
        self._actions: dict[str, Action] = {}
        self._waiting: dict[str, Action] = {}
        self._asleep: dict[str, Action] = {}
        assert len({one.id for one in graph.actions}) == len(graph.actions), "two actions of one name"
        self._add(graph.actions)

    def _add(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if action.id not in self._actions and self._is_wanted(action):
                self._actions[action.id] = action
                (self._asleep if action.on_demand else self._waiting)[action.id] = action

    @property
    def unfinished(self) -> bool:
        return any(name not in self.ends and name not in self._asleep for name in self._actions)

    def _is_ready(self, action: Action) -> bool:
        return self.ends.keys() >= action.needs - self._asleep.keys()

    def take_ready(self) -> list[Bound]:
        """The actions that have all their inputs, each with its key. Raises PassThrough if an input cannot be read."""
        ready = list(filter(self._is_ready, self._waiting.values()))
        for action in ready:
            del self._waiting[action.id]
        return [Bound(one, one.key(self._digests(one)), again=one.id in self._again) for one in ready]

    def _digests(self, action: Action) -> dict[str, str]:
        """The digests of the inputs that its key contains."""
        digests = {}
        for name in action.keyed:
            source = dict(action.inputs)[name]
            assert not isinstance(source, File), "the planner has read it by now"
            try:
                digests[name] = (
                    self.ends[source.action].hash(source.name) if isinstance(source, Output) else source.hash
                )
            except OSError as error:
                raise PassThrough("named_file", f"'{name}': {error.strerror}") from error
        return digests

    def needed(self, action: Action) -> dict[str, End]:
        """The ends of the actions that it needs, except on-demand actions that nobody has asked for yet."""
        return {name: self.ends[name] for name in action.needs if name in self.ends}

    @property
    def has_ready(self) -> bool:
        return any(map(self._is_ready, self._waiting.values()))

    def drop(self, is_wanted: Callable[[Action], bool]) -> None:
        """Drop the actions that are not wanted."""
        self._is_wanted = is_wanted
        for all_of_them in (self._actions, self._waiting, self._asleep):
            for action in [one for one in all_of_them.values() if not is_wanted(one)]:
                del all_of_them[action.id]

    def is_read(self, name: str) -> bool:
        """Is there an unfinished action that reads outputs of that one?"""
        left = (one for one in self._actions.values() if one.id not in self.ends and one.id not in self._asleep)
        return any(name in one.needs for one in left)

    def finish(self, end: End) -> None:
        self.ends[end.bound.action.id] = end
        self._add(self._grow(end))

    def reopen(self, lost: set[str], waiting: Action | None = None) -> None:
        """Run the `lost` actions again (or for the first time, if they are on demand), and then the one that is
        `waiting` for them."""
        for name in lost:
            if name in self._asleep:
                self._waiting[name] = self._asleep.pop(name)
                continue
            self._again[name] = self._again.get(name, 0) + 1
            if self._again[name] == _TRIES:
                raise PassThrough("store", "its entries are damaged repeatedly")
            if self.ends.pop(name, None):
                self._waiting[name] = self._actions[name]
        if waiting:
            self._waiting[waiting.id] = waiting
