"""What the native program asks the storage helper (`native/helper.c`): is the result of this command to be had?

asked     "ask ", bytes of the rest, blank, number of words, newline; then, each followed by NUL: the working
          directory, the words of the command as typed, the variables as NAME=VALUE
answer    "y": its direct record is in the local store.  "n": it is not.  Before that, now and then, a newline,
          which says that the helper is at it
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import BinaryIO

from hipcache.values import dataclass

ASK, AHEAD = b"ask ", b"ahead "
YES, NO = b"y", b"n"
_MOST = 4 << 20


@dataclass(frozen=True)
class Asked:
    ahead: bool
    argv: tuple[str, ...]
    cwd: str
    environ: Mapping[str, str]


def read(line: bytes, rest: BinaryIO) -> Asked:
    """Raises ValueError for what is no question, and OSError."""
    size, words = map(int, line.split()[1:])
    if not (0 < size <= _MOST and words > 0):
        raise ValueError("no size of a question")
    text = rest.read(size)
    if len(text) != size or not text.endswith(b"\0"):
        raise ValueError("a question that is cut")
    parts = [os.fsdecode(part) for part in text[:-1].split(b"\0")]
    if len(parts) <= words:
        raise ValueError("too few words")
    pairs = [part.partition("=") for part in parts[1 + words :]]
    return Asked(
        line.startswith(AHEAD), tuple(parts[1 : 1 + words]), parts[0], {name: value for name, _, value in pairs}
    )
