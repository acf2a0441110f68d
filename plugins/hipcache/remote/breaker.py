"""Keeps what a remote costs within a bound: a breaker, as of circuits.

Closed, fetches go through, and the time that they take beyond what a good remote would is added up: LATENCY, and the
content at SPEED. Where that comes to BUDGET, or where the remote is at fault, it opens: nothing goes out until a probe
in the background has found the remote well, first after PAUSE seconds, then after twice as many each time. What is lost
is forgotten after MEMORY seconds, and so are the pauses where the remote was well for that long. A fetch that is under
way and has lost MOST is given up: some servers send a little now and then. Of one for a whole build, nobody expects
more than that it goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

LATENCY, SPEED = 0.3, 2 << 20  # seconds for each fetch; bytes in a second
BUDGET, MEMORY = 1.0, 600.0
MOST, GOES_ON = 1.7, 64 << 10  # seconds; bytes in a second
PAUSE, MOST_PAUSE = 15.0, 300.0


class Breaker:
    """`timeout`: of the address; LATENCY and BUDGET are of one second. `clock` gives seconds; `memory`: after
    so many of them all is forgotten.
    `why`: in words why it is open; empty while it is closed."""

    def __init__(
        self, timeout: float = 1.0, clock: Callable[[], float] = time.monotonic, memory: float = MEMORY
    ) -> None:
        self.why = ""
        self._memory = memory
        self._clock = clock
        self._latency, self._budget, self._most = LATENCY * timeout, BUDGET * timeout, MOST * timeout
        self._lock = threading.Lock()
        self._lost, self._counted_to, self._since = 0.0, 0.0, clock()
        self._pause, self._probe_at, self._closed_at = PAUSE, 0.0, clock()

    def spent(self, began: float, received: int) -> None:
        """A fetch that began then has ended now. Time that several fetches have waited is counted once."""
        now = self._clock()
        with self._lock:
            if now - self._since > self._memory:
                self._lost, self._since = 0.0, now
            from_then = max(began + self._latency + received / SPEED, self._counted_to)
            if now > from_then:
                self._lost += now - from_then
                self._counted_to = now
            if self._lost < self._budget:
                return
        self.open("it is slow")

    def is_too_slow(self, began: float, received: int, *, ahead: bool) -> bool:
        """A fetch that began then, has so many bytes so far, and is still under way. `ahead`: for a whole build."""
        return self._clock() - began > self._latency + self._most + received / (GOES_ON if ahead else SPEED)

    def open(self, why: str) -> None:
        with self._lock:
            if not self.why:
                now = self._clock()
                if now - self._closed_at > self._memory:
                    self._pause = PAUSE
                self.why = why
                self._probe_at = now + self._pause
                self._pause = min(2 * self._pause, MOST_PAUSE)

    def is_to_be_probed(self) -> bool:
        """Is it open, and has it been for long enough? True once: whoever asks, probes."""
        with self._lock:
            if not self.why or self._clock() < self._probe_at:
                return False
            self._probe_at = self._clock() + self._pause
            self._pause = min(2 * self._pause, MOST_PAUSE)
            return True

    def close(self) -> None:
        """The remote is well. A little is left to lose until the memory fades."""
        with self._lock:
            self.why, self._lost = "", self._budget / 2
            self._since = self._closed_at = self._clock()
