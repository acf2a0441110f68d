"""A line at the bottom of a terminal on which another program writes, as apt's progress has it: the rows above it are
a scrolling region of their own (DECSTBM), so that what the program writes never meets it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import TextIO

_LEAST_ROWS = 5


class Line:
    """While it is entered, the last row of `out` is its own. `possible`: is `out` a terminal that can do that?"""

    def __init__(self, out: TextIO, environ: Mapping[str, str]) -> None:
        self._out = out
        self._size = os.terminal_size((0, 0))
        self.possible = out.isatty() and environ.get("TERM", "dumb") != "dumb" and self._now().lines >= _LEAST_ROWS

    def __enter__(self) -> Line:
        self._out.write("\n")  # a row for the line, if the cursor is in the last one
        self._reserve()
        return self

    def __exit__(self, *_: object) -> None:
        rows = self._size.lines
        self._write(f"\x1b7\x1b[r\x1b[{rows};1H\x1b[K\x1b8")

    def show(self, text: str) -> None:
        if self._now() != self._size:
            self._reserve()
        told = text[: self._size.columns - 1]
        self._write(f"\x1b7\x1b[{self._size.lines};1H\x1b[K\x1b[7m{told}\x1b[0m\x1b8")

    def _reserve(self) -> None:
        """Let all rows but the last one scroll, and the cursor stand in them."""
        self._size = self._now()
        self._write(f"\x1b7\x1b[1;{self._size.lines - 1}r\x1b8\x1b[1A")

    def _now(self) -> os.terminal_size:
        try:
            return os.get_terminal_size(self._out.fileno())
        except (OSError, ValueError):
            return shutil.get_terminal_size((0, 0))

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
