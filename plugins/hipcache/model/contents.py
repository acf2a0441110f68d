"""Contents: their digests, and where they are while an action runs."""

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
    """A content that this process holds, as a file or in memory."""

    path: Path | None = None
    content: bytes | None = None

    def read(self) -> bytes:
        if self.content is not None:
            return self.content
        assert self.path
        return self.path.read_bytes()


@dataclass(frozen=True)
class Dependency:
    """A file that a pass read. `system`: -MMD omits it."""

    path: str
    system: bool


@dataclass(frozen=True)
class Trace:
    """The trace of an observed action. `reads`: the hash of its read set. `directory`: the working directory, if its
    outputs or its text contain that path and so are valid only there; otherwise empty."""

    reads: str
    directory: str = ""


@dataclass(frozen=True)
class PassTrace:
    """The trace of a pass. `reads` is None if its result must not be stored. `names_base`: may the output depend on the
    base directory?"""

    reads: ReadSet | None
    files: tuple[Dependency, ...]
    names_base: bool


@dataclass(frozen=True)
class Ran:
    """The result of a run: its outputs, and why they must not be stored, in words (empty: they may). `passing`: hashes
    of outputs that are not named by their content; `trace`: of an observed action; `pass_trace`: of a pass."""

    outputs: Mapping[str, Held]
    text: str
    seconds: float
    why_not: str = ""
    passing: Mapping[str, str] = field(default_factory=dict)
    trace: Trace | None = None
    pass_trace: PassTrace | None = None

    def named(self, passing: Iterable[str]) -> dict[str, str]:
        """The hashes of its outputs that are not stored."""
        return {
            name: self.passing[name] if name in self.passing else digest_bytes(self.outputs[name].read())
            for name in passing
        }


class Inputs(Protocol):
    """The inputs of a running action."""

    def of(self, name: str) -> Held:
        """An input. Raises Lost if no cache has it any more."""
        ...

    def said(self, name: str) -> str:
        """The text of the action that the input comes from."""
        ...

    def seconds(self, name: str) -> float:
        """And its time."""
        ...
