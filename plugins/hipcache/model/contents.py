"""Contents: their names, and where they are while an action runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from hipcache.values import dataclass


@dataclass(frozen=True)
class Digest:
    """A content's name: its hash (64 hexadecimal digits of BLAKE3) and its size in bytes."""

    hash: str
    size: int


@dataclass(frozen=True)
class Held:
    """A content that this process has, as a file or in memory."""

    path: Path | None = None
    content: bytes | None = None

    def read(self) -> bytes:
        if self.content is not None:
            return self.content
        assert self.path
        return self.path.read_bytes()


@dataclass(frozen=True)
class Trace:
    """What an observed action read: the hash of its read set. `directory`: the working directory where its outputs or
    its text name that, and so are good there alone; else empty."""

    reads: str
    directory: str = ""


@dataclass(frozen=True)
class Ran:
    """What an action came to that was run: its outputs, and in words why they must not be stored (empty: they may).
    `trace`: of one that was observed."""

    outputs: Mapping[str, Held]
    text: str
    seconds: float
    why_not: str = ""
    trace: Trace | None = None


class Inputs(Protocol):
    """What an action is run with."""

    def of(self, name: str) -> Held:
        """An input. Raises Lost where no cache has it any more."""
        ...

    def said(self, name: str) -> str:
        """The text of the action that the input comes from."""
        ...
