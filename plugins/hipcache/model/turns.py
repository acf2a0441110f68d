"""The plan's order, where it matters: which actions wait for one that may fail, and which a failure cancels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hipcache.errors import FailedInTurn
from hipcache.model.action import Action, Bound

# From the actions to run: the one that those behind it must wait for, or None.
Gate = Callable[[Sequence[Bound]], "Bound | None"]


class Turns:
    """The actions to run. `failed`: the failure with the earliest turn; nothing behind it is wanted."""

    def __init__(self, gate: Gate) -> None:
        self.failed: FailedInTurn | None = None
        self._failed_turn: int | None = None
        self._gate: Gate | None = gate
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
        self._waiting = [one for one in waiting if first and one.action.turn > first.turn]
        return [one for one in waiting if not first or one.action.turn <= first.turn]

    def end(self, action: Action) -> None:
        if self._first and self._first.id == action.id:
            self._first = None

    def fail(self, action: Action, failed: FailedInTurn) -> None:
        if self._failed_turn is None or action.turn < self._failed_turn:
            self.failed, self._failed_turn = failed, action.turn
            self._waiting = [one for one in self._waiting if self.is_wanted(one.action)]

    def is_wanted(self, action: Action) -> bool:
        return self._failed_turn is None or action.turn < self._failed_turn
