"""Results of actions over the protocols of storage: by content (`content`), or by what was read, too (`manifest`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from hipcache.values import dataclass

if TYPE_CHECKING:
    from hipcache.model import ActionResult, Bound, Cache, Missing, Ran


class ResultCache(Protocol):
    def look_up(self, wanted: Sequence[Bound]) -> Mapping[str, ActionResult | Missing]:
        """By the action. One that is not named is missing, too."""
        ...

    def publish(self, bound: Bound, ran: Ran) -> ActionResult:
        """Store what was made, if that may and can be done."""
        ...


@dataclass(frozen=True)
class Caches:
    """Each action's result is where its policy says."""

    content: ResultCache
    manifest: ResultCache
    observed: ResultCache

    def look_up(self, wanted: Sequence[Bound]) -> Mapping[str, ActionResult | Missing]:
        found: dict[str, ActionResult | Missing] = {}
        for kind in {bound.action.policy.cache for bound in wanted}:
            found |= self._of(kind).look_up([bound for bound in wanted if bound.action.policy.cache is kind])
        return found

    def publish(self, bound: Bound, ran: Ran) -> ActionResult:
        return self._of(bound.action.policy.cache).publish(bound, ran)

    def _of(self, kind: Cache) -> ResultCache:
        from hipcache.model import Cache  # the storage helper has no use for it

        return {Cache.MANIFEST: self.manifest, Cache.OBSERVED: self.observed}.get(kind, self.content)
