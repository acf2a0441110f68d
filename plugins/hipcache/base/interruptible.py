"""Long work, by which signals are heard: they reach Python in the main thread alone, and between two steps of Python.

That of native code is done beside the thread that needs it (`run`). Who waits here hears signals at once; and a task
that is to end (`abandon`) does not wait for work that nobody needs any more. A long text is read in `portions`, and a
thread that is to end does so between two of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")

# Seconds after which a thread that waits looks whether a signal has come. The kernel may give one to any thread of the
# process; the main thread, whose work it is, is not woken then.
LOOK = 0.1
# Bytes below which native code takes less than some milliseconds.
LARGE = 1 << 20
# Bytes of a portion: a step over so many takes some 10 ms.
PORTION = 1 << 20

_lock = threading.Lock()
_waiting: dict[threading.Thread, threading.Semaphore] = {}
_abandoned: WeakSet[threading.Thread] = WeakSet()


class Abandoned(BaseException):
    """The task is to end; no failure of its own, so no `except Exception` is meant."""


def run(work: Callable[[], T], *, size: int) -> T:
    """The result of `work`, which goes through `size` bytes without the interpreter's lock. Where a signal's handler
    raises meanwhile, or the thread is abandoned, the work is left to itself: the process is about to end."""
    if size < LARGE:
        return work()
    thread = threading.current_thread()
    results: list[T] = []
    failed: list[Any] = []
    done = threading.Semaphore(0)

    def do() -> None:
        try:
            results.append(work())
        except BaseException as error:  # it is raised again below
            failed.append(error)
        finally:
            done.release()

    with _lock:
        if thread in _abandoned:
            raise Abandoned
        _waiting[thread] = done
    try:
        threading.Thread(target=do, daemon=True).start()
        wait(done)
    finally:
        with _lock:
            _waiting.pop(thread, None)
    if failed:
        raise failed[0]
    if not results:
        raise Abandoned
    return results[0]


def wait(done: threading.Semaphore) -> None:
    """As `done.acquire()`; a signal that comes meanwhile is heard."""
    while not done.acquire(timeout=LOOK):
        pass


def go_on() -> None:
    """Raises Abandoned in a thread that is to end. A long loop asks between two of its steps."""
    if threading.current_thread() in _abandoned:
        raise Abandoned


def abandon(threads: Iterable[threading.Thread]) -> None:
    """Have `run` and `go_on` raise Abandoned in those threads, now and from now on."""
    with _lock:
        for thread in threads:
            _abandoned.add(thread)
            if thread in _waiting:
                _waiting[thread].release()


def portions(text: bytes, mark: bytes, size: int = PORTION) -> Iterator[bytes]:
    """The text in parts of `size` or somewhat more, each up to and with a mark."""
    start = 0
    while len(text) - start > size:
        place = text.find(mark, start + size)
        if place < 0:
            break
        yield text[start : place + len(mark)]
        start = place + len(mark)
        go_on()
    yield text[start:]


def lines(text: bytes, size: int = PORTION) -> Iterator[bytes]:
    """The lines of a text, without their ends; now and then an empty one more."""
    for part in portions(text, b"\n", size):
        yield from part.split(b"\n")
