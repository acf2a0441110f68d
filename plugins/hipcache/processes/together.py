"""Tasks side by side, each in a thread of its own; the first failure ends the others.

`concurrent.futures` would do, but imports `logging` and `queue`: 6 ms of each compile.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from hipcache import aside

T = TypeVar("T")
Name = TypeVar("Name")

# Seconds for the other tasks where one has failed.
_PATIENCE = 1.0


class Pool(Generic[Name, T]):
    """Tasks that end one after the other. Where the `with` ends by an exception, `stop` ends what runs, and the tasks
    have a moment to clean up: who does not end in time must not keep the process alive.

    Each is in a thread also where it is only one: signals reach the main thread, which must not hold one of make's
    tokens."""

    def __init__(self, *, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._threads: list[threading.Thread] = []
        self._done: deque[tuple[Name, T | None, BaseException | None]] = deque()
        self._ended = threading.Semaphore(0)
        self.busy = 0  # tasks whose end has not been told

    def __enter__(self) -> Pool[Name, T]:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is not None:
            self._stop()
            aside.abandon(self._threads)
            last = time.monotonic() + _PATIENCE
            for thread in self._threads:
                thread.join(max(0.0, last - time.monotonic()))

    def submit(self, name: Name, task: Callable[[], T]) -> None:
        thread = threading.Thread(target=self._run, args=(name, task), daemon=True)
        thread.start()
        self._threads.append(thread)
        self.busy += 1

    def _run(self, name: Name, task: Callable[[], T]) -> None:
        try:
            self._done.append((name, task(), None))
        except BaseException as error:  # it is raised again below, in the thread that waits
            self._done.append((name, None, error))
        finally:
            self._ended.release()

    def next_done(self) -> tuple[Name, T]:
        """Waits. Raises what the task raised."""
        self._ended.acquire()
        self.busy -= 1
        name, result, error = self._done.popleft()
        if error is not None:
            raise error
        return name, result  # type: ignore[return-value]


def side_by_side(tasks: Mapping[int, Callable[[], T]], *, stop: Callable[[], None], patience: float) -> dict[int, T]:
    """What each task gave. Raises what the first one raised that failed, or what a signal's handler raised here, after
    `stop` has ended what runs, long work of native code is abandoned, and its tasks had `patience` seconds to clean
    up."""
    results: dict[int, T] = {}
    in_order(tasks, results, kind=(), stop=lambda number: stop(), patience=patience)
    return results


def in_order(
    tasks: Mapping[int, Callable[[], T]],
    results: dict[int, T],
    *,
    kind: type[Exception] | tuple[()],
    stop: Callable[[int], None],
    patience: float,
) -> None:
    """The same for tasks in the order of their numbers; what they gave goes into `results`. A failure of that `kind`
    says that those behind it are not wanted: `stop` ends them (all with a greater number than that which it is given),
    the others come to their end, and the failure of the first one is raised."""
    failed: dict[int, BaseException] = {}
    ended = threading.Semaphore(0)

    def run(number: int, task: Callable[[], T]) -> None:
        try:
            results[number] = task()
        except BaseException as error:  # it is raised again below, in the thread that waits
            failed[number] = error
        finally:
            ended.release()

    # Who does not end in time must not keep the process alive.
    threads = [threading.Thread(target=run, args=item, daemon=True) for item in tasks.items()]
    started: list[threading.Thread] = []
    try:
        for thread in threads:
            thread.start()
            started.append(thread)
        for _ in threads:
            ended.acquire()
            if failed:
                first = min(failed)
                if not isinstance(failed[first], kind) or all(one in results for one in tasks if one < first):
                    raise failed[first]
                stop(first)
    except BaseException:
        stop(-1)
        aside.abandon(started)
        last = time.monotonic() + patience
        for thread in started:
            thread.join(max(0.0, last - time.monotonic()))
        raise
