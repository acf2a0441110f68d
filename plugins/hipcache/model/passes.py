"""A pass over a source, as work."""

from __future__ import annotations

from hipcache.model.action import Bound, Work
from hipcache.planning.frontend import FrontEnd
from hipcache.values import dataclass

# The outputs of passes: of a front end the essence of its bitcode, and the same without its CUID (empty if it has
# none).
BITCODE, NEUTRAL, OUTPUT = "bitcode", "neutral", "output"


@dataclass(frozen=True)
class Pass(Work):
    """A pass that is run, which writes files that begin with `stem` in the scratch. `bitcode`: does it end before its
    back end? `gpubinary`: the input that is to be its fat binary, empty if it takes none; `shared`: may its result
    serve other spellings of its paths?"""

    front: FrontEnd
    stem: str
    bitcode: bool = False
    gpubinary: str = ""
    shared: bool = False


def pass_of(bound: Bound) -> Pass:
    """The work of an action that is a pass."""
    assert isinstance(bound.action.work, Pass)
    return bound.action.work


def loose_key(bound: Bound) -> str:
    """The key under which what a pass made is kept for other values of macros (`cache/edits`); empty if there is
    none."""
    work = pass_of(bound)
    front = work.front
    is_kept = work.shared and front.values and bound.key.digest == front.key.digest and not front.numbers_lines
    return front.loose if is_kept else ""
