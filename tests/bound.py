"""A bound for each test, and children that begin with the usual signals however the suite was started.

A test that takes longer than its bound fails where it stands, and all processes that it started are killed. Should that
not help (it waits within C), the traces of all threads are printed and the whole process ends, a minute later.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

_GRACE = 60
# A test may have another one in its place.
_listdir = os.listdir


class Late(BaseException):
    """No `except Exception` of a test takes it for a fault that it expects."""


@contextlib.contextmanager
def bounded(seconds: float) -> Iterator[None]:
    """Raises Late after that many seconds of the wall clock, and ends what was started within."""
    known = _descendants()

    def end(number: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 1)  # again, should whoever waits here wait for another one next
        for pid in _descendants() - known:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        raise Late(f"the test takes longer than {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, end)
    outer = signal.setitimer(signal.ITIMER_REAL, seconds)
    faulthandler.dump_traceback_later(seconds + _GRACE, exit=True)
    try:
        yield
    except Late as late:
        _disarm()
        pytest.fail(str(late))
    finally:
        _disarm()
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *outer)


def usual_signals() -> None:
    """What a shell or nohup made this process ignore (SIGINT in a background job), it goes on to ignore, and its
    children do not: by a handler that does nothing, which ends with their exec."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _ignore)


def _ignore(number: int, frame: FrameType | None) -> None:
    pass


def _disarm() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.cancel_dump_traceback_later()


def _descendants() -> set[int]:
    """The processes below this one. It is asked thrice a test, so not all of /proc is read."""
    found: set[int] = set()
    left = [os.getpid()]
    while left:
        for task in _tasks(left.pop()):
            with contextlib.suppress(OSError), open(f"{task}/children") as file:
                below = [int(word) for word in file.read().split()]
                found.update(below)
                left += below
    return found


def _tasks(pid: int) -> list[str]:
    try:
        return [f"/proc/{pid}/task/{name}" for name in _listdir(f"/proc/{pid}/task")]
    except OSError:
        return []
