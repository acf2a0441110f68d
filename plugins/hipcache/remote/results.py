"""A team's results: ask a remote, in one request, for everything that no near cache has, and look it up again.

If the near record of a pass has no entry that holds, the remote's record may have one, so it is requested, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hipcache.base.values import dataclass, field
from hipcache.build import ActionId, ActionResult, Bound, Missing, Ran
from hipcache.build.loop import ResultCache
from hipcache.cache.content import Shelves
from hipcache.report import statistics
from hipcache.report.outcome import HOST

if TYPE_CHECKING:
    from hipcache.remote.client import Client, Fetched

# Look-ups that follow one another in one question: under the own key, and under that for every spelling.
_MOST_STEPS = 3


@dataclass(frozen=True)
class SharedCache:
    """The near cache together with the remote. `shelves`: those of the near one, which note what they are asked
    for."""

    near: ResultCache
    shelves: Shelves
    _came: set[str] = field(default_factory=set)

    def look_up(self, wanted: Sequence[Bound]) -> Mapping[ActionId, ActionResult | Missing]:
        found: dict[ActionId, ActionResult | Missing] = {}
        left, lacking, counts = list(wanted), list[Bound](), Counter[str]()
        for step in range(_MOST_STEPS + 1):
            asked = self._look_up_near(left, found, counts)
            left = [bound for bound in left if not isinstance(found.get(bound.action.id), ActionResult)]
            # A local hit has some that are only looked up, and never run: that is none of a remote's affairs.
            if step == _MOST_STEPS or not any(bound.action.policy.run for bound in left):
                break
            keys = [key for key, record in asked.items() if record is None or record.startswith(b"[")]
            fetched = self._fetch(keys)
            if fetched:
                self._came.update(fetched.came)
                lacking = left
                for unit in {unit for bound in left if (unit := _unit(bound))}:
                    counts[f"{unit} milliseconds"] += round(fetched.seconds * 1000)
                    counts[f"{unit} errors"] += fetched.fault
            if not (fetched and fetched.new):
                break
        for bound in lacking:
            if bound in left and bound.action.policy.run and _unit(bound):
                counts[f"{_unit(bound)} misses"] += 1
        if counts:
            config = self._client.config
            statistics.count(config.dir, "remote", counts, config.umask)
        return found

    def _look_up_near(
        self, wanted: Sequence[Bound], found: dict[ActionId, ActionResult | Missing], counts: Counter[str]
    ) -> dict[str, bytes | None]:
        """All that was asked for. Once something has come, one after the other: so it is known whose that was."""
        noted = self.shelves.noted
        assert noted
        every: dict[str, bytes | None] = {}
        for some in [[bound] for bound in wanted] if self._came else [wanted]:
            with noted.noting() as asked:
                found |= self.near.look_up(some)
            every |= asked
            for bound in some:
                result = found.get(bound.action.id)
                if isinstance(result, ActionResult) and not self._came.isdisjoint(asked) and _unit(bound):
                    counts[f"{_unit(bound)} hits"] += 1
                    counts[f"{_unit(bound)} bytes"] += sum(digest.size for digest in result.outputs.values())
        return every

    def _fetch(self, keys: Sequence[str]) -> Fetched | None:
        """Put the records that the remote has under those keys into the near cache. None if nothing was asked."""
        fetched = self._client.fetch(keys)
        if fetched and fetched.new:
            self.shelves.serve(f"results came from remote '{self._client.served_by}'")
        return fetched

    @property
    def _client(self) -> Client:
        assert self.shelves.context.remote
        client: Client = self.shelves.context.remote()
        return client

    def publish(self, bound: Bound, ran: Ran) -> ActionResult:
        return self.near.publish(bound, ran)


def _unit(bound: Bound) -> str:
    """The arch, or the host; nothing for what belongs to no unit."""
    label = bound.action.label
    return label if label == HOST else label.partition(" of ")[2]
