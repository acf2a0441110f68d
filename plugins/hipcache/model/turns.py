"""The plan's order, where it matters: what waits for an action that may well fail, and what a failure leaves undone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hipcache.errors import FailedInTurn
from hipcache.model.action import Action, Bound

# Of the actions that are to be run first: the one whose end those behind it are to wait for, None where there is none.
Gate = Callable[[Sequence[Bound]], "Bound | None"]


class Turns:
    """`failed`: the failure of the earliest turn, behind which nothing is wanted."""

    def __init__(self, gate: Gate) -> None:
        self.failed: FailedInTurn | None = None
        self._failed_turn: int | None = None
        self._gate: Gate | None = gate
        self._first: Action | None = None

    def split(self, missing: Sequence[Bound]) -> tuple[list[Bound], list[Bound]]:
        """Those that may begin now, and the others."""
        if self._gate and missing:
            found, self._gate = self._gate(missing), None
            self._first = found.action if found else None
        first = self._first
        later = [one for one in missing if first and one.action.turn > first.turn]
        return [one for one in missing if not first or one.action.turn <= first.turn], later

    def end(self, action: Action) -> None:
        if self._first and self._first.id == action.id:
            self._first = None

    def fail(self, action: Action, failed: FailedInTurn) -> None:
        if self._failed_turn is None or action.turn < self._failed_turn:
            self.failed, self._failed_turn = failed, action.turn

    def is_wanted(self, action: Action) -> bool:
        return self._failed_turn is None or action.turn < self._failed_turn
