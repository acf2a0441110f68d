"""Tasks side by side, each in a thread of its own, as a pool whose tasks end one after the other.

`concurrent.futures` would do, but imports `logging` and `queue`: 6 ms of each compile.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from hipcache.base import interruptible
from hipcache.processes.runner import signals_deferred

T = TypeVar("T")
Name = TypeVar("Name")

# Seconds for tasks that are to end.
_PATIENCE = 1.0


class Pool(Generic[Name, T]):
    """Tasks that end one after the other. Where the `with` ends by an exception, `stop` ends what runs, and the tasks
    have a moment to clean up: who does not end in time must not keep the process alive.

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
