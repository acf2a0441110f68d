"""The hint for a command whose program does not exist: the one that may be meant, or how to install it.

Loaded for that only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from hipcache.errors import nearest
from hipcache.loop import kinds
from hipcache.patterns import pattern

_COMPILERS = pattern(r"((amd)?clang\+\+|hipcc|clang)(-[0-9.]+)?")
_SETTING = pattern(r"\w+=")
_DOCTOR = "'hipcache doctor' lists the compilers it finds"


def hint(word: str, path: str = "") -> str:
    """The advice for `word`, a name or a path at which no program is found. `path`: the variable PATH."""
    name = os.path.basename(word)
    others = {kind.program: kind.install for kind in kinds.of_features()}
    if name in others:
        return f"{'put its directory on PATH' if name == word else 'correct the path'}, or {others[name]}"
    if _SETTING.match(word):
        return f"put it before hipcache: {word} hipcache COMPILER ..."
    if name != word:
        return f"correct the path; {_DOCTOR}"
    near = nearest(word, dict.fromkeys((*_compilers(path), *others)), 0.7)
    if near:
        return f"did you mean the compiler '{near}'?"
    return f"correct the name or PATH; {_DOCTOR}, and 'hipcache --help' the subcommands"


def _compilers(path: str) -> Iterator[str]:
    for directory in path.split(os.pathsep):
        try:
            yield from filter(_COMPILERS.fullmatch, sorted(os.listdir(directory or ".")))
        except OSError:
            continue
