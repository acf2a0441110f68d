"""The end of an action in this build: found in a cache, or run here (its outputs may still be in the scratch)."""

from __future__ import annotations

from collections.abc import Mapping

from hipcache.inputs.keys import digest_file
from hipcache.model.action import ActionResult, Bound, Cache, Missing
from hipcache.model.contents import Held, Ran
from hipcache.values import dataclass, replace

_NOTHING = ActionResult({}, "", 0.0)


@dataclass(frozen=True)
class End:
    """`why`: the reason why it ran; empty for a hit. `held`: the outputs that it just made. `missing`: it was only
    looked up, and not found."""

    bound: Bound
    result: ActionResult
    why: str
    held: Mapping[str, Held]
    missing: Missing | None = None

    @classmethod
    def looked_up(cls, bound: Bound, found: ActionResult | Missing | None) -> End:
        """The end by the answer of a cache. `found`: None if no cache was asked, or it had no answer."""
        found = found or Missing(bound.action.missing)
        if isinstance(found, Missing):
            return cls(replace(bound, why=found.why), _NOTHING, found.why, {}, found)
        return cls(bound, found, "", {})

    @classmethod
    def of_run(cls, bound: Bound, ran: Ran, result: ActionResult | None = None) -> End:
        """`result`: as it was published; None if it was not, or not yet."""
        action = bound.action
        result = result or ActionResult({}, ran.text, ran.seconds, ran.named(action.passing))
        why = "it runs every time" if action.policy.cache is Cache.NEVER else bound.why
        return cls(bound, result, why, ran.outputs)

    @property
    def is_to_run(self) -> bool:
        """It was looked up and not found, and it is not a mere lookup."""
        return self.missing is not None and (self.bound.again or self.bound.action.policy.run)

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
    """The caches no longer have outputs of these actions that are needed, so each must run again."""

    def __init__(self, actions: set[str]) -> None:
        super().__init__(", ".join(sorted(actions)))
        self.actions = actions
