"""A terminal that nobody sees, for a process that prints something else there."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from hipcache.processes.runner import Traced
from hipcache.values import replace

_AT_ONCE = 1 << 16
_TICK = 0.02  # seconds
# Seconds for which a process that was left behind, with the terminal open, is listened to.
_SILENCE = 0.5


def on_one(run: Callable[[int], Traced]) -> Traced:
    """The trace of what `run` runs with the descriptor of a terminal as its standard error. Raises OSError, also if
    there is no such terminal."""
    here, there = os.openpty()
    said: list[bytes] = []
    ended = threading.Event()
    # A terminal holds 4 KiB: a process that says more waits for its reader.
    reader = threading.Thread(target=_listen, args=(here, said, ended), daemon=True)
    reader.start()
    try:
        traced = run(there)
    finally:
        os.close(there)
        ended.set()
        reader.join()
        os.close(here)
    return replace(traced, ended=replace(traced.ended, stderr=b"".join(said)))


def _listen(terminal: int, said: list[bytes], ended: threading.Event) -> None:
    until = 0.0
    with suppress(OSError):  # nobody has the terminal open any more
        while not until or time.monotonic() < until:
            if ended.is_set():
                until = until or time.monotonic() + _SILENCE
            if select.select([terminal], [], [], _TICK)[0]:
                said.append(os.read(terminal, _AT_ONCE))
