"""The one loop that makes what a command asks for: what no cache has is run, and all of it is delivered.

No action waits for one that it does not need. The first failure ends the rest. Content that turns out to be lost or
damaged makes the one action that it is of run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from hipcache.delivery import files
from hipcache.errors import PassThrough
from hipcache.execution import Executor
from hipcache.execution.inputs import Contents
from hipcache.model.action import Action, ActionResult, Bound, Cache, File, Output
from hipcache.model.contents import Ran
from hipcache.model.end import End, Lost
from hipcache.model.graph import Graph
from hipcache.model.progress import Progress
from hipcache.processes.together import Pool
from hipcache.storage import ContentStore, SingleFlight
from hipcache.values import dataclass


class ResultCache(Protocol):
    def look_up(self, wanted: Sequence[Bound]) -> dict[str, ActionResult]: ...

    def publish(self, bound: Bound, ran: Ran) -> ActionResult: ...

    def why(self, bound: Bound) -> str:
        """In words, why the last look-up found nothing."""
        ...


@dataclass(frozen=True)
class World:
    """`executors` by the type of the work; `stop` ends what runs."""

    cache: ResultCache
    contents: ContentStore
    flight: SingleFlight
    executors: Mapping[type, Executor]
    stop: Callable[[], None]


def build(graph: Graph, world: World, ends: dict[str, End] | None = None) -> dict[str, End]:
    """How each action ended; what the graph delivers is written. `ends` is filled in, for who wants to know how far it
    came. Raises JobFailed, PassThrough, StoreError."""
    progress = Progress(graph, ends if ends is not None else {})
    with Pool[Action, "End | Lost"](stop=world.stop) as pool:
        while True:
            while progress.unfinished:
                # 2. Key each action that has all its inputs; 3. look up all of these in one question.
                ready = [bind(action, progress.ends) for action in progress.take_ready()]
                found = look_up([bound for bound in ready if bound.action.id not in progress.again], world)
                for bound in ready:
                    if bound.action.id in found:
                        progress.finish(found[bound.action.id])
                    else:  # 4. Run what is missing, side by side.
                        needed = {name: progress.ends[name] for name in bound.action.needs}
                        again = bound.action.id in progress.again
                        pool.submit(bound.action, partial(_make, bound, needed, world, again=again))
                if not (ready or pool.busy):
                    raise PassThrough("internal", "a graph in which an action waits for one that is not there")
                if pool.busy and not progress.has_ready:
                    action, end = pool.next_done()
                    if isinstance(end, Lost):
                        progress.reopen(end.actions, action)
                    else:
                        progress.finish(end)
            lost = files.deliver(graph, progress.ends, world.contents)  # 6. Write what was asked for.
            if not lost:
                return progress.ends
            progress.reopen(lost)


def bind(action: Action, ends: Mapping[str, End]) -> Bound:
    """The action with its key. Raises PassThrough where an input cannot be read."""
    digests = {}
    for name in action.keyed:
        source = dict(action.inputs)[name]
        assert not isinstance(source, File), "the planner has read it by now"
        try:
            digests[name] = ends[source.action].hash(source.name) if isinstance(source, Output) else source.hash
        except OSError as error:
            raise PassThrough("named_file", f"'{name}': {error.strerror}") from error
    return Bound(action, action.key(digests))


def look_up(wanted: Sequence[Bound], world: World) -> dict[str, End]:
    """The ends of those actions that a cache has a result of."""
    cached = {bound.action.id: bound for bound in wanted if bound.action.policy.cache is not Cache.NEVER}
    found = world.cache.look_up(list(cached.values()))
    return {id: End(cached[id], result, "", {}) for id, result in found.items()}


def _make(bound: Bound, ends: Mapping[str, End], world: World, *, again: bool) -> End | Lost:
    """Run the action, unless another process has made its result by the time that it is ours to make."""
    action = bound.action
    try:
        if action.policy.cache is Cache.NEVER:
            ran = _run(bound, ends, world)
            return End(bound, ActionResult({}, ran.text, ran.seconds), "it is run each time", ran.outputs)
        with world.flight.alone(bound.key.digest):
            found = look_up([bound], world) if not again else {}
            if found:
                return found[action.id]
            why = world.cache.why(bound)
            ran = _run(bound, ends, world)
            return End(bound, world.cache.publish(bound, ran), why, ran.outputs)  # 5.
    except Lost as lost:
        return lost


def _run(bound: Bound, ends: Mapping[str, End], world: World) -> Ran:
    return world.executors[type(bound.action.work)].run(bound, Contents(bound.action, ends, world.contents))
