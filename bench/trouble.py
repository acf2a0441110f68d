"""What can end a benchmark early, in the words that the user reads."""

from __future__ import annotations


class BenchError(Exception):
    """A fault, and what to do about it: two lines."""

    def __init__(self, fault: str, advice: str = "") -> None:
        super().__init__(f"{fault}\n{advice}" if advice else fault)
