"""The one loop that builds a graph: it runs the actions that no cache has, and delivers the outputs.

No action waits for one that it does not need. The first failure ends the rest. If stored content turns out to be lost
or damaged, only the action that made it runs again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from hipcache.base import interruptible
from hipcache.base.errors import FailedInTurn, PassThrough
from hipcache.base.values import dataclass, field, replace
from hipcache.build import (
    Action,
    ActionId,
    ActionOutput,
    ActionResult,
    Bound,
    Cache,
    End,
    File,
    Graph,
    Held,
    Inputs,
    Literal,
    Lost,
    Missing,
    Progress,
    Ran,
    Step,
    Turns,
)
from hipcache.build.delivery import deliver
from hipcache.build.storage import ContentStore, SingleFlight
from hipcache.processes.runner import signals_deferred


class Executor(Protocol):
    """Runs one kind of work. It is told the inputs as contents, and the outputs by name: one that runs elsewhere sends
    the first there and fetches the second."""

    def run(self, bound: Bound, inputs: Inputs) -> Ran:
        """Raises JobFailed, PassThrough, StoreError, Lost."""
        ...


class InProcess:
    """Runs a step of this program."""

    def run(self, bound: Bound, inputs: Inputs) -> Ran:
        work = bound.action.work
        assert isinstance(work, Step)
        return work.run(inputs)


class ResultCache(Protocol):
    """Action results over the storage protocols: by key (`content`), or by key and trace (`manifest`)."""

    def look_up(self, wanted: Sequence[Bound]) -> Mapping[ActionId, ActionResult | Missing]:
        """The results by action id. An action without an entry is missing, too."""
        ...

    def publish(self, bound: Bound, ran: Ran) -> ActionResult:
        """Store the result, if that is allowed and possible."""
        ...


@dataclass(frozen=True)
class Caches:
    """The policy of an action decides which cache has its result."""

    by_policy: Mapping[Cache, ResultCache]

    def look_up(self, wanted: Sequence[Bound]) -> Mapping[ActionId, ActionResult | Missing]:
        found: dict[ActionId, ActionResult | Missing] = {}
        for kind in {bound.action.policy.cache for bound in wanted}:
            found |= self.by_policy[kind].look_up([bound for bound in wanted if bound.action.policy.cache is kind])
        return found

    def publish(self, bound: Bound, ran: Ran) -> ActionResult:
        return self.by_policy[bound.action.policy.cache].publish(bound, ran)


@dataclass(frozen=True)
class Contents:
    """The inputs of an action, wherever their contents are. `ends`: of the actions that it needs, but for those that
    nobody has asked for yet."""

    action: Action
    ends: Mapping[ActionId, End]
    contents: ContentStore

    def of(self, name: str) -> Held:
        source = dict(self.action.inputs)[name]
        if isinstance(source, File):
            return Held(path=Path(source.path))
        if isinstance(source, Literal):
            return Held(content=source.content())
        end = self.ends.get(source.action)
        if end and source.name in end.held:
            return end.held[source.name]
        stored = end.result.outputs.get(source.name) if end else None
        content = self.contents.read(stored.hash) if stored else None
        if content is None:
            raise Lost({source.action})
        return Held(content=content)

    def said(self, name: str) -> str:
        end = self._end(name)
        return end.result.text if end else ""

    def seconds(self, name: str) -> float:
        end = self._end(name)
        return end.result.seconds if end else 0.0

    def _end(self, name: str) -> End | None:
        source = dict(self.action.inputs)[name]
        return self.ends.get(source.action) if isinstance(source, ActionOutput) else None


@dataclass(frozen=True)
class World:
    """`executors` by the type of the work; `begin` a turn in this thread, `stop` what runs for those behind one.
    `adopt`: take over the result of a pass before an edit that changes nothing in it."""

    cache: ResultCache
    contents: ContentStore
    flight: SingleFlight
    executors: Mapping[type, Executor]
    begin: Callable[[int], None]
    stop: Callable[[int], None]
    adopt: Callable[[Bound], bool] = lambda _: False

    def run(self, bound: Bound, inputs: Contents) -> Ran:
        return self.executors[type(bound.action.work)].run(bound, inputs)


def build(graph: Graph, world: World, ends: dict[ActionId, End] | None = None) -> dict[ActionId, End]:
    """Build the graph and write its outputs; return how each action ended. `ends` is filled as actions end, so that the
    caller can see the progress after a failure. Raises JobFailed, PassThrough, StoreError."""
    progress, turns = Progress(graph, ends if ends is not None else {}), Turns(graph.gate)
    with Pending(world.cache) as pending, Pool[Action, End](stop=partial(world.stop, -1)) as pool:
        while True:
            while progress.unfinished:
                # 2. Key each action that has all its inputs; 3. look up all of them at once.
                for end in _look_up(progress.take_ready(), world):
                    if end.is_to_run:
                        turns.add(end.bound)
                    else:
                        progress.finish(end)
                if progress.unfinished and not progress.has_ready:  # 4. Run the misses in parallel.
                    for bound in turns.take():
                        inputs = Contents(bound.action, progress.needed(bound.action), world.contents)
                        pool.submit(bound.action, partial(_make, bound, inputs, world, pending))
                    if not pool.busy:
                        raise PassThrough(
                            "internal", "an action of the graph waits for one that the graph does not have"
                        )
                    pending.settle(progress)  # 5. Publish results whose readers have ended, before waiting for others.
                    _take(*pool.next_done(), progress, turns, world)
            pending.settle(progress)
            if turns.failed:
                raise turns.failed
            lost = deliver(graph, progress.ends, world.contents)  # 6. Write the outputs.
            if not lost:
                return progress.ends
            progress.reopen(lost)


def _look_up(wanted: Sequence[Bound], world: World) -> list[End]:
    """The end of each action: found in a cache, or missing."""
    found = world.cache.look_up([bound for bound in wanted if bound.is_cached])
    return [End.looked_up(bound, found.get(bound.action.id)) for bound in wanted]


def _make(bound: Bound, inputs: Contents, world: World, pending: Pending) -> End:
    """Run the action, unless another process makes its result while this one waits for the key."""
    world.begin(bound.action.turn)
    if bound.action.policy.cache is Cache.NEVER:
        return End.of_run(bound, world.run(bound, inputs))
    with ExitStack() as key:
        key.enter_context(world.flight.alone(bound.key.digest))
        (end,) = _look_up([bound], world)
        if end.missing and bound.action.policy.cache is Cache.MANIFEST and world.adopt(bound):
            (end,) = _look_up([bound], world)
        if not end.missing:
            return end
        ran = world.run(end.bound, inputs)
        if bound.action.passing:
            return pending.hold(End.of_run(end.bound, ran), ran, key.pop_all())
        return End.of_run(end.bound, ran, world.cache.publish(end.bound, ran))  # 5.


def _take(action: Action, done: End | Exception, progress: Progress, turns: Turns, world: World) -> None:
    """Record how the action ended, or reopen the producers of its lost inputs."""
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
    else:
        progress.finish(done)


@dataclass
class Pending:
    """Results that are not published yet, because only this process has the outputs that they name, with their keys.

    Some outputs are named by digest and not stored (`Action.passing`). When all readers of such outputs have ended, the
    result is published and its key unlocked, so that a process that waits for the key finds the readers' results, too.
    At the end, however it comes, all keys are unlocked, also those that are held later."""

    cache: ResultCache
    _held: dict[ActionId, tuple[End, Ran, ExitStack]] = field(default_factory=dict)
    _open: bool = True
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Pending:
        return self

    def __exit__(self, *error: object) -> None:
        with self._guard:
            self._open = False
            held = list(self._held.values())
        for _, _, key in held:
            key.close()

    def hold(self, end: End, ran: Ran, key: ExitStack) -> End:
        """The action has run. Hold `key` until `settle` finds that its outputs have been read."""
        with self._guard:
            if self._open:
                self._held[end.bound.action.id] = end, ran, key
                return end
        key.close()
        return end

    def settle(self, progress: Progress) -> None:
        """Publish the results whose readers have all ended."""
        with self._guard:
            done = [id for id in self._held if id in progress.ends and not progress.is_read(id)]
        for id in done:
            with self._guard:
                end, ran, key = self._held.pop(id)
            with key:
                progress.ends[id] = replace(end, result=self.cache.publish(end.bound, ran))


T = TypeVar("T")
Name = TypeVar("Name")

# Seconds for tasks that are to end.
_PATIENCE = 1.0


class Pool(Generic[Name, T]):
    """Tasks side by side, which end one after the other. Where the `with` ends by an exception, `stop` ends what runs,
    and the tasks have a moment to clean up: who does not end in time must not keep the process alive.
    (`concurrent.futures` would do, but imports `logging` and `queue`: 6 ms of each compile.)

    Each is in a thread also where it is only one: signals reach the main thread, which must not hold one of make's
    tokens."""

    def __init__(self, *, stop: Callable[[], None], patience: float = _PATIENCE) -> None:
        self._stop, self._patience = stop, patience
        self._threads: list[threading.Thread] = []
        self._done: deque[tuple[Name, T | BaseException]] = deque()
        self._ended = threading.Semaphore(0)
        self.busy = 0  # tasks whose end has not been told

    def __enter__(self) -> Pool[Name, T]:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is not None:
            self._stop()
            interruptible.abandon(self._threads)
            last = time.monotonic() + self._patience
            for thread in self._threads:
                thread.join(max(0.0, last - time.monotonic()))

    def submit(self, name: Name, task: Callable[[], T]) -> None:
        thread = threading.Thread(target=self._run, args=(name, task), daemon=True)
        # A signal while it starts would leave it to nobody, and with it what it puts on the disk.
        with signals_deferred():
            thread.start()
            self._threads.append(thread)
        self.busy += 1

    def _run(self, name: Name, task: Callable[[], T]) -> None:
        try:
            self._done.append((name, task()))
        except BaseException as error:  # it is for the thread that waits
            self._done.append((name, error))
        finally:
            self._ended.release()

    def next_done(self) -> tuple[Name, T | Exception]:
        """Waits for what the task gives, or fails with. Raises what is no `Exception`."""
        interruptible.wait(self._ended)
        self.busy -= 1
        name, done = self._done.popleft()
        if isinstance(done, BaseException) and not isinstance(done, Exception):
            raise done
        return name, done
