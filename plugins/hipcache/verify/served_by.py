"""The object that the store would serve for a compile: the graph of its source, built only from stored results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hipcache.engine import Engine
from hipcache.execution import Executor
from hipcache.execution.session import Session
from hipcache.loop.build import build
from hipcache.loop.world import world_of
from hipcache.model import Bound, Inputs, Pass, Process, Ran, Step
from hipcache.planners import source
from hipcache.planning.command import Command
from hipcache.planning.plan import Plan
from hipcache.values import dataclass, replace


def store(engine: Engine, command: Command, plan: Plan, path: Path) -> bytes | str:
    """The object that the store serves; or, in words, why it serves none."""
    with Session(engine, command) as session:
        graph = source.graph(source.source_graph(session, plan))
        delivered = tuple(replace(one, path=str(path)) for one in graph.deliveries)
        world = world_of(session)
        nothing_new = _StoredOnly(world.executors)
        try:
            build(
                replace(graph, deliveries=delivered, rules=()),
                replace(world, executors=dict.fromkeys((Pass, Process, Step), nothing_new)),
            )
        except NotStored as error:
            return str(error)
    return path.read_bytes()


class NotStored(Exception):
    """The text says why the store does not serve it."""


@dataclass(frozen=True)
class _StoredOnly:
    """Puts together what is stored, and makes nothing of it anew."""

    executors: Mapping[type, Executor]

    def run(self, bound: Bound, inputs: Inputs) -> Ran:
        action = bound.action
        if action.policy.slot and isinstance(action.work, (Process, Pass)):
            raise NotStored(bound.why)
        return self.executors[type(action.work)].run(bound, inputs)
