"""An action: one piece of work, with all that it is made from, as a value.

Its `parts` say what its output depends on: they are its key, and name inputs by `Ref`, as its command does. A `Ref` in
a part stands for the content's digest, in a command for a path. So a command has no path of this machine's scratch,
and an input that no part names is a hint: it makes the work faster, and cannot change what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Union

from hipcache.inputs.keys import Key, make_key
from hipcache.model.contents import Digest, Inputs, Ran
from hipcache.values import dataclass


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
    """A file of the user's, as the command names it."""

    path: str


@dataclass(frozen=True)
class Literal:
    """A content that the planner knows; `content` gives it where it is needed."""

    hash: str
    content: Callable[[], bytes]


Source = Output | File | Literal


class Cache(Enum):
    """Where the result of an action is looked up: nowhere, by the digest of its parts, or by that and by the files that
    it was seen to read."""

    NEVER = "never"
    CONTENT = "content"
    OBSERVED = "observed"


class Diagnostics(Enum):
    """What becomes of the text that an action writes to standard error: the user reads it (it is stored with the
    result), or the whole command is left to the compiler, since the text would look another way there."""

    TOLD = "told"
    REFUSED = "refused"


@dataclass(frozen=True)
class Policy:
    """`slot`: does it count as a running compiler?"""

    cache: Cache = Cache.CONTENT
    diagnostics: Diagnostics = Diagnostics.TOLD
    slot: bool = True


# As a job of the driver's plan that writes nothing but files.
EACH_TIME = Policy(Cache.NEVER, Diagnostics.REFUSED, slot=False)


@dataclass(frozen=True)
class Process:
    """A command, run in the user's directory with the user's environment; or in `root`, a directory of the scratch in
    which its inputs and outputs are named relative to it, and with the scratch for its temporary files. `places`: where
    outputs lie in the scratch, if not under their names."""

    command: tuple[Word, ...]
    root: str = ""
    places: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Function:
    """A step in this process: contents of inputs by name -> contents of outputs by name."""

    call: Callable[[Mapping[str, bytes]], Mapping[str, bytes]]


@dataclass(frozen=True)
class Step:
    """What only this machine can do, such as the host's link into the user's tree."""

    run: Callable[[Inputs], Ran]


Work = Process | Function | Step


@dataclass(frozen=True)
class Action:
    """`id`: its name in the graph; `kind`: the first word of its key; `label`: its name in messages; `missing`: why it
    had to run, where no result is stored."""

    id: str
    kind: str
    label: str
    work: Work
    parts: tuple[tuple[str, Word], ...] = ()
    inputs: tuple[tuple[str, Source], ...] = ()
    outputs: tuple[str, ...] = ()
    policy: Policy = Policy()
    missing: str = ""

    @property
    def needs(self) -> set[str]:
        """The actions that it waits for."""
        return {source.action for _, source in self.inputs if isinstance(source, Output)}

    def key(self, digests: Mapping[str, str]) -> Key:
        """`digests`: of the inputs that its parts name."""
        return make_key(self.kind, [(name, render(word, digests)) for name, word in self.parts])

    @property
    def keyed(self) -> set[str]:
        """The inputs whose content its key has."""
        return {one.name for _, word in self.parts for one in word if isinstance(one, Ref)}


@dataclass(frozen=True)
class Bound:
    """An action whose inputs are known."""

    action: Action
    key: Key


@dataclass(frozen=True)
class ActionResult:
    """`outputs`: a digest for each output that is stored; `text`: all that was said; `seconds`: of the work."""

    outputs: Mapping[str, Digest]
    text: str
    seconds: float


def render(word: Word, names: Mapping[str, str]) -> str:
    """The word with a text for each `Ref`."""
    if isinstance(word, str):
        return word
    return "".join(one if isinstance(one, str) else names[one.name] for one in word)
