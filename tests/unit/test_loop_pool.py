"""Tasks side by side: who ends them early waits for their cleaning up, and not for work that nobody needs any more."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping

import pytest
from hipcache.base import interruptible
from hipcache.build.loop import Pool
from hipcache.inputs import includes, outline

PATIENCE = 60  # seconds; some milliseconds are enough


def together(tasks: Mapping[int, Callable[[], object]]) -> dict[int, object]:
    """What each has given. Raises what the first one raised that failed."""
    given: dict[int, object] = {}
    with Pool[int, object](stop=lambda: None, patience=PATIENCE) as pool:
        for number, task in tasks.items():
            pool.submit(number, task)
        while pool.busy:
            number, done = pool.next_done()
            if isinstance(done, Exception):
                raise done
            given[number] = done
    return given


def test_a_task_that_is_to_end_does_not_wait_for_native_work() -> None:
    """As the lexer at a text of 100 MB, when a signal comes or another task fails."""
    begun, go = threading.Event(), threading.Event()
    worked: list[bool] = []
    cleaned: list[int] = []

    def work() -> None:
        begun.set()
        worked.append(go.wait(PATIENCE))

    def task() -> None:
        try:
            interruptible.run(work, size=interruptible.LARGE)
        finally:
            with pytest.raises(interruptible.Abandoned):
                interruptible.run(work, size=interruptible.LARGE)
            cleaned.append(interruptible.run(lambda: 1, size=1))

    def fails() -> None:
        assert begun.wait(PATIENCE)
        raise ValueError("another task fails")

    with pytest.raises(ValueError, match="another task fails"):
        together({0: task, 1: fails})
    assert (worked, cleaned) == ([], [1])
    go.set()


LINES = b"a line\n" * (interruptible.PORTION // 3)


@pytest.mark.parametrize(
    "read",
    [
        lambda: list(interruptible.lines(LINES)),
        lambda: includes.scan(b"int a;"),
        lambda: outline.renumbers(LINES),
    ],
    ids=["portions", "scan", "renumbers"],
)
def test_a_task_that_is_to_end_reads_no_text_to_its_end(read: Callable[[], object]) -> None:
    go, ends = threading.Event(), list[str]()

    def task() -> None:
        assert go.wait(PATIENCE)
        try:
            read()
            ends.append("at the end of the text")
        except interruptible.Abandoned:
            ends.append("before")

    threads = [threading.Thread(target=task) for _ in range(2)]
    for thread in threads:
        thread.start()
    interruptible.abandon(threads[:1])
    go.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(ends) == ["at the end of the text", "before"]


@pytest.mark.parametrize("wait", ["pool", "aside"])
def test_a_signal_that_another_thread_is_given_is_heard_while_the_main_thread_waits(wait: str) -> None:
    """Python handles it in the main thread, which the kernel has not woken."""
    go = threading.Event()

    class Heard(Exception):
        pass

    def hear(number: int, frame: object) -> None:
        raise Heard

    def work() -> None:
        time.sleep(0.2)  # the main thread waits by then
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        go.wait(PATIENCE)

    before = signal.signal(signal.SIGUSR1, hear)
    begun = time.monotonic()
    try:
        with pytest.raises(Heard):
            if wait == "pool":
                with Pool[int, None](stop=go.set) as pool:
                    pool.submit(0, work)
                    pool.next_done()
            else:
                interruptible.run(work, size=interruptible.LARGE)
    finally:
        signal.signal(signal.SIGUSR1, before)
        go.set()
    assert time.monotonic() - begun < PATIENCE


def test_work_aside_gives_its_result_or_its_failure() -> None:
    assert together({0: lambda: interruptible.run(lambda: 7, size=interruptible.LARGE)}) == {0: 7}
    with pytest.raises(ZeroDivisionError):
        interruptible.run(lambda: 1 // 0, size=interruptible.LARGE)
