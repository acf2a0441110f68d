"""A graph: the actions of one command, the outputs that the user gets, and what is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from hipcache.base.errors import FailedInTurn, PassThrough, passing_through
from hipcache.base.values import dataclass
from hipcache.build.action import Action, ActionId, ActionOutput, Bound, End, File

# The plan's order, where it matters: which actions wait for one that may fail, and which a failure cancels.

# From the actions to run: the one that those behind it must wait for, or None.
Gate = Callable[[Sequence[Bound]], Bound | None]


class Turns:
    """The actions to run. `failed`: the failure with the earliest turn; nothing behind it is wanted."""

    def __init__(self, gate: Gate | None) -> None:
        self.failed: FailedInTurn | None = None
        self._failed_turn: int | None = None
        self._gate = gate
        self._first: Action | None = None
        self._waiting: list[Bound] = []

    def add(self, bound: Bound) -> None:
        self._waiting.append(bound)

    def take(self) -> list[Bound]:
        """The actions that may begin now."""
        if self._gate and self._waiting:
            found, self._gate = self._gate(self._waiting), None
            self._first = found.action if found else None
        first, waiting = self._first, self._waiting
        self._waiting = [bound for bound in waiting if first and bound.action.turn > first.turn]
        return [bound for bound in waiting if not first or bound.action.turn <= first.turn]

    def end(self, action: Action) -> None:
        if self._first and self._first.id == action.id:
            self._first = None

    def fail(self, action: Action, failed: FailedInTurn) -> None:
        if self._failed_turn is None or action.turn < self._failed_turn:
            self.failed, self._failed_turn = failed, action.turn
            self._waiting = [bound for bound in self._waiting if self.is_wanted(bound.action)]

    def is_wanted(self, action: Action) -> bool:
        return self._failed_turn is None or action.turn < self._failed_turn


@dataclass(frozen=True)
class Delivery:
    """Write `output` to the absolute `path`. `through_links`: write into an existing file, also through a symbolic
    link? An output that the action did not write is skipped."""

    path: str
    output: ActionOutput
    executable: bool = False
    through_links: bool = False


# Alternative passes: the first one that has ended represents them.
Slot = tuple[ActionId, ...]


@dataclass(frozen=True)
class DependencyRule:
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

    action: ActionId
    label: str
    names: tuple[str, ...]
    backend: bool = False
    passes: Slot = ()
    makers: Slot = ()
    inputs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Graph:
    """`path`: absolute, of the object or program that the history names it by; `messages`: what the driver said before
    any action. `grow`: the actions that follow from how one has ended. `printed`: whose texts the user reads, in this
    order (none: all actions'). `gate`: see `Turns`; `text`: of an action, as the user's terminal would show it."""

    actions: tuple[Action, ...]
    deliveries: tuple[Delivery, ...]
    units: tuple[Unit, ...]
    path: str
    messages: str = ""
    grow: Callable[[End], Iterable[Action]] = lambda end: ()
    printed: tuple[Slot, ...] = ()
    rules: tuple[DependencyRule, ...] = ()
    gate: Gate | None = None
    text: Callable[[End], str] = lambda end: end.result.text

    def said(self, ends: Mapping[ActionId, End]) -> str:
        """The messages for the user, from the actions that have ended."""
        slots = self.printed or tuple((action.id,) for action in self.actions)
        return self.messages + "".join(self.text(end) for end in map(partial(ended, ends), slots) if end)

    def read(self, ends: Mapping[ActionId, End]) -> tuple[str, ...]:
        """All files that the passes read."""
        known = [end for end in map(partial(ended, ends), self.printed) if end]
        return tuple(dict.fromkeys(file.path for end in known for file in end.result.files))


def ended(ends: Mapping[ActionId, End], slot: Slot) -> End | None:
    """The end of the pass that represents the slot."""
    return next((ends[id] for id in slot if id in ends and not ends[id].missing), None)


# The progress of a graph: which actions have ended, can begin, or must run again.

# One action may run again so often for lost content. Beyond that, something deletes all stored content.
_TRIES = 5


class Progress:
    """`ends`: how the finished actions ended."""

    def __init__(self, graph: Graph, ends: dict[ActionId, End]) -> None:
        self.ends = ends
        self._again: dict[ActionId, int] = {}  # whose results were lost, and how often
        self._grow = graph.grow
        self._is_wanted: Callable[[Action], bool] = lambda action: True
        self._actions: dict[ActionId, Action] = {}
        self._waiting: dict[ActionId, Action] = {}
        self._asleep: dict[ActionId, Action] = {}
        assert len({action.id for action in graph.actions}) == len(graph.actions), "two actions of one name"
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
        return [Bound(action, action.key(self._digests(action)), again=action.id in self._again) for action in ready]

    def _digests(self, action: Action) -> dict[str, str]:
        """The digests of the inputs that its key contains."""
        digests = {}
        for name in action.keyed:
            source = dict(action.inputs)[name]
            assert not isinstance(source, File), "the planner has read it by now"
            with passing_through("named_file", name):
                digests[name] = (
                    self.ends[source.action].hash(source.name) if isinstance(source, ActionOutput) else source.hash
                )
        return digests

    def needed(self, action: Action) -> dict[ActionId, End]:
        """The ends of the actions that it needs, except on-demand actions that nobody has asked for yet."""
        return {name: self.ends[name] for name in action.needs if name in self.ends}

    @property
    def has_ready(self) -> bool:
        return any(map(self._is_ready, self._waiting.values()))

    def drop(self, is_wanted: Callable[[Action], bool]) -> None:
        """Drop the actions that are not wanted."""
        self._is_wanted = is_wanted
        for all_of_them in (self._actions, self._waiting, self._asleep):
            for action in [action for action in all_of_them.values() if not is_wanted(action)]:
                del all_of_them[action.id]

    def is_read(self, name: ActionId) -> bool:
        """Is there an unfinished action that reads outputs of that one?"""
        left = (
            action for action in self._actions.values() if action.id not in self.ends and action.id not in self._asleep
        )
        return any(name in action.needs for action in left)

    def finish(self, end: End) -> None:
        self.ends[end.bound.action.id] = end
        self._add(self._grow(end))

    def reopen(self, lost: set[ActionId], waiting: Action | None = None) -> None:
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
