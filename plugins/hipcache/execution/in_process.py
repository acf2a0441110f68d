"""Steps that run in this process."""

from __future__ import annotations

import time

from hipcache.model import Bound, Function, Held, Inputs, Ran, Step


class InProcess:
    def run(self, bound: Bound, inputs: Inputs) -> Ran:
        work = bound.action.work
        if isinstance(work, Step):
            return work.run(inputs)
        assert isinstance(work, Function)
        started = time.monotonic()
        made = work.call({name: inputs.of(name).read() for name, _ in bound.action.inputs})
        outputs = {name: Held(content=made[name]) for name in bound.action.outputs}
        return Ran(outputs, "", time.monotonic() - started)
