"""Contents: their names, and where they are while an action runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from hipcache.inputs.keys import digest_bytes
from hipcache.inputs.readset import ReadSet
from hipcache.values import dataclass, field


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
class Dependency:
    """A file that a pass read. `system`: left out by -MMD."""

    path: str
    system: bool


@dataclass(frozen=True)
class Trace:
    """What an observed action read: the hash of its read set. `directory`: the working directory where its outputs or
    its text name that, and so are good there alone; else empty."""

    reads: str
    directory: str = ""


@dataclass(frozen=True)
class PassTrace:
    """What a pass looked at. `reads` is None where its result must not be stored. `bound`: may what it made depend on
    the base directory?"""

    reads: ReadSet | None
    files: tuple[Dependency, ...]
    bound: bool


@dataclass(frozen=True)
class Ran:
    """What an action came to that was run: its outputs, and in words why they must not be stored (empty: they may).
    `passing`: hashes of outputs that are named in another way than by their content; `trace`: of one that was observed;
    `looked`: of a pass."""

    outputs: Mapping[str, Held]
    text: str
    seconds: float
    why_not: str = ""
    passing: Mapping[str, str] = field(default_factory=dict)
    trace: Trace | None = None
    looked: PassTrace | None = None

    def named(self, passing: Iterable[str]) -> dict[str, str]:
        """The hashes of those of its outputs that are not stored."""
        return {
            name: self.passing[name] if name in self.passing else digest_bytes(self.outputs[name].read())
            for name in passing
        }


class Inputs(Protocol):
    """What an action is run with."""

    def of(self, name: str) -> Held:
        """An input. Raises Lost where no cache has it any more."""
        ...

    def said(self, name: str) -> str:
        """The text of the action that the input comes from."""
        ...

    def seconds(self, name: str) -> float:
        """And its time."""
        ...
