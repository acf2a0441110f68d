"""A team's results: ask a remote, in one request, for everything that no near cache has, and look it up again.

If the near record of a pass has no entry that holds, the remote's record may have one, so it is requested, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hipcache.cache import ResultCache
from hipcache.model import ActionResult, Bound, Missing, Ran
from hipcache.storage.noted import NotedActions
from hipcache.values import dataclass

# Look-ups that follow one another in one question: under the own key, and under that for every spelling.
_MOST_STEPS = 3


@dataclass(frozen=True)
class SharedCache:
    """`fetch` puts what the remote has of those keys into the near cache; is there something new?"""

    near: ResultCache
    actions: NotedActions
    fetch: Callable[[Sequence[str]], bool]

    def look_up(self, wanted: Sequence[Bound]) -> Mapping[str, ActionResult | Missing]:
        found: dict[str, ActionResult | Missing] = {}
        left = list(wanted)
        for _ in range(_MOST_STEPS):
            with self.actions.noting() as asked:
                found |= self.near.look_up(left)
            left = [bound for bound in left if not isinstance(found.get(bound.action.id), ActionResult)]
            keys = [key for key, record in asked.items() if record is None or record.startswith(b"[")]
            # A local hit has some that are only looked up, and never run: that is none of a remote's affairs.
            if not any(bound.action.policy.run for bound in left) or not self.fetch(keys):
                break
        else:
            found |= self.near.look_up(left)
        return found

    def publish(self, bound: Bound, ran: Ran) -> ActionResult:
        return self.near.publish(bound, ran)
