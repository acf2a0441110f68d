"""Tasks side by side, each in a thread of its own; the first failure ends the others.

`concurrent.futures` would do, but imports `logging` and `queue`: 6 ms of each compile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from hipcache import aside

T = TypeVar("T")


def side_by_side(tasks: Mapping[int, Callable[[], T]], *, stop: Callable[[], None], patience: float) -> dict[int, T]:
    """What each task gave. Raises what the first one raised that failed, or what a signal's handler raised here, after
    `stop` has ended what runs, long work of native code is abandoned, and its tasks had `patience` seconds to clean
    up."""
    results: dict[int, T] = {}
    failed: list[BaseException] = []
    ended = threading.Semaphore(0)

    def run(number: int, task: Callable[[], T]) -> None:
        try:
            results[number] = task()
        except BaseException as error:  # it is raised again below, in the thread that waits
            failed.append(error)
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
                raise failed[0]
        return results
    except BaseException:
        stop()
        aside.abandon(started)
        last = time.monotonic() + patience
        for thread in started:
            thread.join(max(0.0, last - time.monotonic()))
        raise
