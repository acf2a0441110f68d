"""What the user sees while minutes pass: a bar on a terminal, a line for each build elsewhere."""

from __future__ import annotations

import time
from typing import TextIO

WIDTH = 24


class Progress:
    """Counts the builds that were announced."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._total = total
        self._done = 0
        self._stream = stream
        self._terminal = stream.isatty()
        self._start = time.monotonic()

    def begin(self, what: str) -> None:
        """A build starts."""
        if self._terminal:
            filled = WIDTH * self._done // max(self._total, 1)
            bar = "█" * filled + "·" * (WIDTH - filled)
            self._write(f"\r\x1b[K{bar} {self._done}/{self._total} {self._elapsed()}  {what}")

    def end(self, what: str, wall: float) -> None:
        """It is finished."""
        self._done += 1
        if not self._terminal:
            self._write(f"[{self._done:3}/{self._total}] {self._elapsed()}  {what}: {wall:.2f} s\n")

    def say(self, text: str) -> None:
        """A line of its own."""
        self._write(f"\r\x1b[K{text}\n" if self._terminal else f"{text}\n")

    def finish(self) -> None:
        """No more builds: the bar goes."""
        if self._terminal:
            self._write("\r\x1b[K")

    def _elapsed(self) -> str:
        minutes, rest = divmod(int(time.monotonic() - self._start), 60)
        return f"{minutes}:{rest:02}"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
