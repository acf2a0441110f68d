"""How an action ended in this build: found in a cache, or run here, where its outputs may still lie."""

from __future__ import annotations

from collections.abc import Mapping

from hipcache.inputs.keys import digest_file
from hipcache.model.action import ActionResult, Bound, Missing
from hipcache.model.contents import Held
from hipcache.values import dataclass


@dataclass(frozen=True)
class End:
    """`why` it had to run; empty for a hit. `held`: the outputs that it has just made. `missing`: where it was only
    looked up, and is not there."""

    bound: Bound
    result: ActionResult
    why: str
    held: Mapping[str, Held]
    missing: Missing | None = None

    @property
    def hit(self) -> bool:
        return not self.why

    def hash(self, output: str) -> str:
        """Raises OSError."""
        if output in self.result.outputs:
            return self.result.outputs[output].hash
        if output in self.result.passing:
            return self.result.passing[output]
        path = self.held[output].path
        assert path
        return digest_file(path)


class Lost(Exception):
    """The caches no longer have the outputs of these actions, which somebody needs: each has to run again."""

    def __init__(self, actions: set[str]) -> None:
        super().__init__(", ".join(sorted(actions)))
        self.actions = actions
