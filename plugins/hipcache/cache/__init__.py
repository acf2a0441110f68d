"""Action results over the storage protocols: by key (`content`), or by key and trace (`manifest`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from hipcache.values import dataclass

if TYPE_CHECKING:
    from hipcache.model import ActionResult, Bound, Cache, Missing, Ran


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
