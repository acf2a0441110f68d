"""A clock that stands still until a test moves it."""

from __future__ import annotations


class HandClock:
    """Seconds since the epoch, as `time.time`."""

    def __init__(self, now: float = 1_000_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def tick(self, seconds: float = 1.0) -> None:
        self.now += seconds
