"""The executors of actions: `local` runs a process of this machine, `InProcess` a step of this program."""

from __future__ import annotations

from typing import Protocol

from hipcache.model import Bound, Inputs, Ran, Step


class Executor(Protocol):
    """Runs one kind of work. It is told the inputs as contents, and the outputs by name: one that runs elsewhere sends
    the first there and fetches the second."""

    def run(self, bound: Bound, inputs: Inputs) -> Ran:
        """Raises JobFailed, PassThrough, StoreError, Lost."""
        ...


class InProcess:
    def run(self, bound: Bound, inputs: Inputs) -> Ran:
        work = bound.action.work
        assert isinstance(work, Step)
        return work.run(inputs)
