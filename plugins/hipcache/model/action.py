"""An action: one piece of work with all its inputs, as a value.

Its `parts` list what the output depends on. They form its key, and refer to inputs by `Ref`, as its command does. In a
part a `Ref` stands for the content's digest, in a command for a path. So a command contains no scratch path of this
machine. An input that no part names is a hint: it makes the work faster, and cannot change the output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Union

from hipcache.inputs.keys import Key, make_key
from hipcache.inputs.readset import Quote
from hipcache.model.contents import Dependency, Digest, Inputs, Ran
from hipcache.values import dataclass, field


@dataclass(frozen=True)
class Ref:
    """An input or an output of an action, by its name."""

    name: str


Word = Union[str, "tuple[str | Ref, ...]"]


@dataclass(frozen=True)
class Output:
    """The output `name` of another action."""

    action: str
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


Source = Output | File | Literal


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


class Work:
    """The work of an action. Each type has an executor."""


@dataclass(frozen=True)
class Process(Work):
    """A command, run in the user's directory with the user's environment; or in `root`, a directory of the scratch in
    which its inputs and outputs are named relative to it, and with the scratch for its temporary files. `places`: where
    outputs lie in the scratch, if not under their names."""

    command: tuple[Word, ...]
    root: str = ""
    places: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Step(Work):
    """Work that only this machine can do, such as the host link into the user's tree."""

    run: Callable[[Inputs], Ran]


@dataclass(frozen=True)
class Action:
    """`id`: its name in the graph; `kind`: the first word of its key; `label`: its name in messages; `missing`: why it
    had to run, if no result is stored (or its content is lost). `passing`: those of its outputs that are not stored,
    only named: who needs one that was not made in this build has the action run again. `on_demand`: it waits until
    another action, which has to run, asks for its outputs. `turn`: its place where a failure that the source has caused
    ends all behind it. `fixed`: its key, instead of `parts`, if it does not depend on other actions."""

    id: str
    kind: str
    label: str
    work: Work
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
    def needs(self) -> set[str]:
        """The ids of the actions that it waits for."""
        return {source.action for _, source in self.inputs if isinstance(source, Output)}

    def key(self, digests: Mapping[str, str]) -> Key:
        """`digests`: of the inputs that its parts name."""
        return self.fixed or make_key(self.kind, [(name, render(word, digests)) for name, word in self.parts])

    @property
    def keyed(self) -> set[str]:
        """The inputs whose content is in its key."""
        words = (word for _, word in self.parts if not isinstance(word, str))
        return {one.name for word in words for one in word if isinstance(one, Ref)}


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
    `passing`: hashes of those that are not stored; `reads`: the hash of the read set, `files`: of a pass, what it read;
    `quotes`: of a pass, the lines that its text quotes (None: each byte of its files counts).
    """

    outputs: Mapping[str, Digest]
    text: str
    seconds: float
    passing: Mapping[str, str] = field(default_factory=dict)
    reads: str = ""
    files: tuple[Dependency, ...] = ()
    quotes: tuple[Quote, ...] | None = None


@dataclass(frozen=True)
class Missing:
    """No result in a cache. `why`: in words; `talked`: did the newest stored result have messages?"""

    why: str
    talked: bool = False


def render(word: Word, names: Mapping[str, str]) -> str:
    """The word with a text for each `Ref`."""
    if isinstance(word, str):
        return word
    return "".join(one if isinstance(one, str) else names[one.name] for one in word)
