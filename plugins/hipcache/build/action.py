"""An action: one piece of work with all its inputs, as a value.

Its `parts` list what the output depends on. They form its key, and refer to inputs by `Ref`, as its command does. In a
part a `Ref` stands for the content's digest, in a command for a path. So a command contains no scratch path of this
machine. An input that no part names is a hint: it makes the work faster, and cannot change the output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Protocol, Union

from hipcache.base.keys import Key, digest_bytes, digest_file, make_key
from hipcache.base.values import dataclass, field, replace
from hipcache.inputs.readset import ReadSet

# Contents: their digests, and where they are while an action runs.


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


class ActionId(NamedTuple):
    """An action in its graph: what it does, and for which unit (empty: there is only one)."""

    kind: str
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.kind} of {self.unit}" if self.unit else self.kind


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
    """The trace of a pass. `reads` is None if its result must not be stored; `files`: those that its dependency file
    lists; `names_base`: may the output depend on the base directory?"""

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


@dataclass(frozen=True)
class Ref:
    """An input or an output of an action, by its name."""

    name: str


Word = Union[str, "tuple[str | Ref, ...]"]


@dataclass(frozen=True)
class ActionOutput:
    """The output `name` of another action."""

    action: ActionId
    name: str


@dataclass(frozen=True)
class File:
    """A file of the user, as the command names it."""

    path: str


@dataclass(frozen=True)
class Literal:
    """A content that the planner knows; `content` returns it on demand."""

    hash: str
    content: Callable[[], bytes]


Source = ActionOutput | File | Literal


class Cache(Enum):
    """The way to look up an action's result: not at all; by the digest of its parts; or by that digest and a trace of
    the files that it read (`manifest`: a pass over a source; `observed`: any other program)."""

    NEVER = "never"
    CONTENT = "content"
    MANIFEST = "manifest"
    OBSERVED = "observed"


class Diagnostics(Enum):
    """The use of an action's standard error: it is stored with the result (and the graph says whether the user reads
    it), or the whole command passes through, because the compiler would print another text."""

    KEPT = "kept"
    REFUSED = "refused"


@dataclass(frozen=True)
class Policy:
    """`slot`: does it count as a running compiler? `run`: False if it is only looked up. `remote`: is it
    worth running on another machine, and does its output depend only on its inputs and its tool? `assembles`: does it
    compile bitcode, whose inline assembly may read other files?"""

    cache: Cache = Cache.CONTENT
    diagnostics: Diagnostics = Diagnostics.KEPT
    slot: bool = True
    run: bool = True
    remote: bool = False
    assembles: bool = False


# For a job of the driver's plan that writes only files.
EACH_TIME = Policy(Cache.NEVER, Diagnostics.REFUSED, slot=False)


class ActionWork:
    """The work of an action. Each type has an executor."""


@dataclass(frozen=True)
class Process(ActionWork):
    """A command, run in the user's directory with the user's environment; or in `root`, a directory of the scratch in
    which its inputs and outputs are named relative to it, and with the scratch for its temporary files. `places`: where
    outputs lie in the scratch, if not under their names."""

    command: tuple[Word, ...]
    root: str = ""
    places: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Step(ActionWork):
    """Work that only this machine can do, such as the host link into the user's tree."""

    run: Callable[[Inputs], Ran]


@dataclass(frozen=True)
class Action:
    """`kind`: the first word of its key; `label`: its name in messages; `missing`: why it had to run, if no result is
    stored (or its content is lost). `passing`: those of its outputs that are not stored, only named: who needs one that
    was not made in this build has the action run again. `on_demand`: it waits until another action, which has to run,
    asks for its outputs. `turn`: its place where a failure that the source has caused ends all behind it. `fixed`: its
    key, instead of `parts`, if it does not depend on other actions."""

    id: ActionId
    kind: str
    label: str
    work: ActionWork
    parts: tuple[tuple[str, Word], ...] = ()
    inputs: tuple[tuple[str, Source], ...] = ()
    outputs: tuple[str, ...] = ()
    policy: Policy = Policy()
    missing: str = ""
    passing: tuple[str, ...] = ()
    on_demand: bool = False
    turn: int = 0
    fixed: Key | None = None

    @property
    def stored(self) -> tuple[str, ...]:
        return tuple(name for name in self.outputs if name not in self.passing)

    @property
    def needs(self) -> set[ActionId]:
        """The ids of the actions that it waits for."""
        return {source.action for _, source in self.inputs if isinstance(source, ActionOutput)}

    def key(self, digests: Mapping[str, str]) -> Key:
        """`digests`: of the inputs that its parts name."""
        return self.fixed or make_key(self.kind, [(name, render(word, digests)) for name, word in self.parts])

    @property
    def keyed(self) -> set[str]:
        """The inputs whose content is in its key."""
        words = (word for _, word in self.parts if not isinstance(word, str))
        return {part.name for word in words for part in word if isinstance(part, Ref)}


@dataclass(frozen=True)
class Bound:
    """An action whose inputs are known. `why`: after a lookup, why no cache has its result. `again`: its result was
    lost, so it must run whatever a cache says."""

    action: Action
    key: Key
    why: str = ""
    again: bool = False

    @property
    def is_cached(self) -> bool:
        """Can a cache have its result?"""
        return not self.again and self.action.policy.cache is not Cache.NEVER


@dataclass(frozen=True)
class ActionResult:
    """`outputs`: a digest for each output that is stored; `text`: all that was said; `seconds`: of the work.
    `passing`: hashes of those that are not stored; `reads`: the hash of the read set, `files`: of a pass, what it read.
    """

    outputs: Mapping[str, Digest]
    text: str
    seconds: float
    passing: Mapping[str, str] = field(default_factory=dict)
    reads: str = ""
    files: tuple[Dependency, ...] = ()


@dataclass(frozen=True)
class Missing:
    """No result in a cache. `why`: in words; `talked`: did the newest stored result have messages?"""

    why: str
    talked: bool = False


def render(word: Word, names: Mapping[str, str]) -> str:
    """The word with a text for each `Ref`."""
    if isinstance(word, str):
        return word
    return "".join(part if isinstance(part, str) else names[part.name] for part in word)


# The end of an action in this build: found in a cache, or run here (its outputs may still be in the scratch).

_NOTHING = ActionResult({}, "", 0.0)


@dataclass(frozen=True)
class End:
    """`why`: the reason why it ran; empty for a hit. `held`: the outputs that it just made. `missing`: it was only
    looked up, and not found."""

    bound: Bound
    result: ActionResult
    why: str
    held: Mapping[str, Held]
    missing: Missing | None = None

    @classmethod
    def looked_up(cls, bound: Bound, found: ActionResult | Missing | None) -> End:
        """The end by the answer of a cache. `found`: None if no cache was asked, or it had no answer."""
        found = found or Missing(bound.action.missing)
        if isinstance(found, Missing):
            return cls(replace(bound, why=found.why), _NOTHING, found.why, {}, found)
        return cls(bound, found, "", {})

    @classmethod
    def of_run(cls, bound: Bound, ran: Ran, result: ActionResult | None = None) -> End:
        """`result`: as it was published; None if it was not, or not yet."""
        action = bound.action
        result = result or ActionResult({}, ran.text, ran.seconds, ran.named(action.passing))
        why = "it runs every time" if action.policy.cache is Cache.NEVER else bound.why
        return cls(bound, result, why, ran.outputs)

    @property
    def is_to_run(self) -> bool:
        """It was looked up and not found, and it is not a mere lookup."""
        return self.missing is not None and (self.bound.again or self.bound.action.policy.run)

    @property
    def hit(self) -> bool:
        return not self.why

    def hash(self, output: str) -> str:
        """Raises OSError."""
        if output in self.result.outputs:
            return self.result.outputs[output].hash
        if output in self.result.passing:
            return self.result.passing[output]
        path = self.held[output].path
        assert path
        return digest_file(path)


class Lost(Exception):
    """The outputs of these actions are needed and not at hand: the store lost them, or they are made on demand, and
    this is the first time. Each must run."""

    def __init__(self, actions: set[ActionId]) -> None:
        super().__init__(", ".join(sorted(map(str, actions))))
        self.actions = actions
