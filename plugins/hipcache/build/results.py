"""Action results over the storage protocols: by key (`content`), or by key and trace (`manifest`)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

from hipcache.base.values import dataclass, field, replace
from hipcache.build import End, Progress, Ran

if TYPE_CHECKING:
    from hipcache.build import ActionResult, Bound, Cache, Missing, Ran


class ResultCache(Protocol):
    def look_up(self, wanted: Sequence[Bound]) -> Mapping[str, ActionResult | Missing]:
        """The results by action id. An action without an entry is missing, too."""
        ...

    def publish(self, bound: Bound, ran: Ran) -> ActionResult:
        """Store the result, if that is allowed and possible."""
        ...


@dataclass(frozen=True)
class Caches:
    """The policy of an action decides which cache has its result."""

    by_policy: Mapping[Cache, ResultCache]

    def look_up(self, wanted: Sequence[Bound]) -> Mapping[str, ActionResult | Missing]:
        found: dict[str, ActionResult | Missing] = {}
        for kind in {bound.action.policy.cache for bound in wanted}:
            found |= self.by_policy[kind].look_up([bound for bound in wanted if bound.action.policy.cache is kind])
        return found

    def publish(self, bound: Bound, ran: Ran) -> ActionResult:
        return self.by_policy[bound.action.policy.cache].publish(bound, ran)


# Results that are not published yet, because only this process has the outputs that they name.
#
# Some outputs are named by digest and not stored (`Action.passing`). When all readers of such outputs have ended, the
# result is published and its key unlocked, so that a process that waits for the key finds the readers' results, too.


@dataclass
class Pending:
    """Results that wait for their readers, with their keys. At the end, however it comes, all keys are unlocked, also
    those that are held later."""

    cache: ResultCache
    _held: dict[str, tuple[End, Ran, ExitStack]] = field(default_factory=dict)
    _open: bool = True
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Pending:
        return self

    def __exit__(self, *error: object) -> None:
        with self._guard:
            self._open = False
            held = list(self._held.values())
        for _, _, key in held:
            key.close()

    def hold(self, end: End, ran: Ran, key: ExitStack) -> End:
        """The action has run. Hold `key` until `settle` finds that its outputs have been read."""
        with self._guard:
            if self._open:
                self._held[end.bound.action.id] = end, ran, key
                return end
        key.close()
        return end

    def settle(self, progress: Progress) -> None:
        """Publish the results whose readers have all ended."""
        with self._guard:
            done = [id for id in self._held if id in progress.ends and not progress.is_read(id)]
        for id in done:
            with self._guard:
                end, ran, key = self._held.pop(id)
            with key:
                progress.ends[id] = replace(end, result=self.cache.publish(end.bound, ran))
