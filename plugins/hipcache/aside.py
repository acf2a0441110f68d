"""Long work of native code, done beside the main thread: signals reach Python in the main thread alone, and between two
steps of Python only. Whoever waits here hears them at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Bytes below which native code takes less than some milliseconds.
LARGE = 1 << 20


def run(work: Callable[[], T], *, size: int) -> T:
    """The result of `work`, which goes through `size` bytes without the interpreter's lock. A handler that raises
    meanwhile leaves it to itself: the process is about to end."""
    if size < LARGE or threading.current_thread() is not threading.main_thread():
        return work()
    results: list[T] = []
    failed: list[BaseException] = []
    done = threading.Semaphore(0)

    def do() -> None:
        try:
            results.append(work())
        except BaseException as error:  # it is raised again below
            failed.append(error)
        finally:
            done.release()

    threading.Thread(target=do, daemon=True).start()
    done.acquire()
    if failed:
        raise failed[0]
    return results[0]
