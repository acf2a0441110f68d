"""A terminal that nobody sees, for a process that prints something else there."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import suppress

from hipcache.processes.runner import Traced
from hipcache.values import replace

_AT_ONCE = 1 << 16
# Seconds for which a process that was left behind, with the terminal open, is listened to.
_SILENCE = 0.5


def on_one(run: Callable[[int], Traced]) -> Traced:
    """The trace of what `run` runs with the descriptor of a terminal as its standard error. Raises OSError, also if
    there is no such terminal."""
    here, there = os.openpty()
    try:
        try:
            traced = run(there)
        finally:
            os.close(there)
        said = b""
        with suppress(OSError):  # nobody has the terminal open any more
            while select.select([here], [], [], _SILENCE)[0] and (piece := os.read(here, _AT_ONCE)):
                said += piece
        return replace(traced, ended=replace(traced.ended, stderr=said))
    finally:
        os.close(here)
