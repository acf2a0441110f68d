"""The one loop that makes what a command asks for: what no cache has is run, and all of it is delivered.

No action waits for one that it does not need. The first failure ends the rest. Content that turns out to be lost or
damaged makes the one action that it is of run again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from hipcache.cache import ResultCache
from hipcache.delivery import deliver
from hipcache.errors import FailedInTurn, PassThrough
from hipcache.execution import Executor
from hipcache.execution.inputs import Contents
from hipcache.model import (
    Action,
    ActionResult,
    Bound,
    Cache,
    End,
    File,
    Graph,
    Lost,
    Missing,
    Output,
    Progress,
    Ran,
    Turns,
)
from hipcache.processes.together import Pool
from hipcache.storage import ContentStore, SingleFlight
from hipcache.storage.held import HeldKeys
from hipcache.values import dataclass, replace


@dataclass(frozen=True)
class World:
    """`executors` by the type of the work; `begin` a turn in this thread, `stop` what runs for those behind one."""

    cache: ResultCache
    contents: ContentStore
    flight: SingleFlight
    executors: Mapping[type, Executor]
    begin: Callable[[int], None]
    stop: Callable[[int], None]


def build(graph: Graph, world: World, ends: dict[str, End] | None = None) -> dict[str, End]:
    """How each action ended; what the graph delivers is written. `ends` is filled in, for who wants to know how far it
    came. Raises JobFailed, PassThrough, StoreError."""
    progress, turns = Progress(graph, ends if ends is not None else {}), Turns(graph.gate)
    missing: list[Bound] = []
    opened: dict[str, Opened] = {}
    with HeldKeys() as keys, Pool[Action, "End | Lost | Opened | Exception"](stop=partial(world.stop, -1)) as pool:
        while True:
            while progress.unfinished:
                # 2. Key each action that has all its inputs; 3. look up all of these in one question.
                ready = [bind(action, progress.ends) for action in progress.take_ready()]
                found = look_up([bound for bound in ready if bound.action.id not in progress.again], world)
                for bound in ready:
                    end = found.get(bound.action.id)
                    if end and not (end.missing and bound.action.policy.run):
                        progress.finish(end)
                    else:
                        missing.append(replace(bound, why=end.why if end else bound.action.missing))
                if progress.unfinished and not progress.has_ready:  # 4. Run what is missing, side by side.
                    beginning, missing = turns.split(missing)
                    for bound in beginning:
                        needed = {name: progress.ends[name] for name in bound.action.needs if name in progress.ends}
                        again = bound.action.id in progress.again
                        pool.submit(bound.action, partial(_make, bound, needed, world, keys, again=again))
                    if not pool.busy:
                        raise PassThrough("internal", "a graph in which an action waits for one that is not there")
                    _take(*pool.next_done(), progress, turns, opened, world)
                    missing = [bound for bound in missing if turns.is_wanted(bound.action)]
                _settle(opened, progress, world)
            if turns.failed:
                raise turns.failed
            lost = deliver(graph, progress.ends, world.contents)  # 6. Write what was asked for.
            if not lost:
                return progress.ends
            progress.reopen(lost)


def _take(
    action: Action,
    done: End | Lost | Opened | Exception,
    progress: Progress,
    turns: Turns,
    opened: dict[str, Opened],
    world: World,
) -> None:
    turns.end(action)
    if not turns.is_wanted(action):
        return
    if isinstance(done, Lost):
        progress.reopen(done.actions, action)
    elif isinstance(done, FailedInTurn):
        turns.fail(action, done)
        world.stop(action.turn)
        progress.drop(turns.is_wanted)
    elif isinstance(done, Exception):
        raise done
    elif isinstance(done, Opened):
        opened[action.id] = done
        progress.finish(done.end)
    else:
        progress.finish(done)


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
    """The ends of those actions that a cache has a result of, or tells why it has none."""
    cached = [bound for bound in wanted if bound.action.policy.cache is not Cache.NEVER]
    found = world.cache.look_up(cached)
    ends = {}
    for bound in cached:
        result = found.get(bound.action.id) or Missing(bound.action.missing)
        ends[bound.action.id] = (
            End(bound, ActionResult({}, "", 0.0), result.why, {}, result)
            if isinstance(result, Missing)
            else End(bound, result, "", {})
        )
    return ends


@dataclass(frozen=True)
class Opened:
    """An action that has run, and whose outputs only this process has. Its result is stored, and its key given free,
    when those that read them have ended: who waits for it then finds what they have made."""

    end: End
    ran: Ran
    lock: ExitStack


def _settle(opened: dict[str, Opened], progress: Progress, world: World) -> None:
    for id in [id for id in opened if not progress.is_read(id)]:
        one = opened.pop(id)
        result = world.cache.publish(one.end.bound, one.ran)  # 5.
        progress.ends[id] = replace(one.end, result=result)
        one.lock.close()


def _make(
    bound: Bound, ends: Mapping[str, End], world: World, keys: HeldKeys, *, again: bool
) -> End | Lost | Opened | Exception:
    """Run the action, unless another process has made its result by the time that it is ours to make. `again`: its
    result is lost."""
    action = bound.action
    try:
        world.begin(action.turn)
        if action.policy.cache is Cache.NEVER:
            ran = _run(bound, ends, world)
            return End(bound, ActionResult({}, ran.text, ran.seconds), "it is run each time", ran.outputs)
        with ExitStack() as lock:
            lock.enter_context(world.flight.alone(bound.key.digest))
            found = look_up([bound], world)[action.id] if not again else None
            if found and not found.missing:
                return found
            bound = replace(bound, why=found.why) if found else bound
            ran = _run(bound, ends, world)
            if action.passing:
                end = End(
                    bound, ActionResult({}, ran.text, ran.seconds, ran.named(action.passing)), bound.why, ran.outputs
                )
                return Opened(end, ran, keys.add(lock.pop_all()))
            return End(bound, world.cache.publish(bound, ran), bound.why, ran.outputs)  # 5.
    except Exception as error:  # the loop takes it as how the action has ended
        return error


def _run(bound: Bound, ends: Mapping[str, End], world: World) -> Ran:
    return world.executors[type(bound.action.work)].run(bound, Contents(bound.action, ends, world.contents))
