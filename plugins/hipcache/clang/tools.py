"""Programs by their names: which are clang, which is hipcc, which are caches that stand before a compiler."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from hipcache.base.errors import PassThrough

# Programs that take a compiler's command behind their own name.
_BEFORE_A_COMPILER = frozenset(["ccache", "sccache", "buildcache", "distcc", "icecc", "hipcache"])


def behind(argv: Sequence[str]) -> tuple[str, ...]:
    """The compiler's command in `ccache sloppiness=pch_defines clang++ -c x.hip`."""
    words = list(argv)
    while words and _name(words[0]) in _BEFORE_A_COMPILER:
        del words[0]
        while words and "=" in words[0] and not words[0].startswith("-"):
            del words[0]
    return tuple(words) if words and not words[0].startswith("-") else tuple(argv)


def is_clang(program: str) -> bool:
    name = _name(program).removeprefix("amd")
    return name.startswith("clang") and _is_version(name.removeprefix("clang").removeprefix("++"))


def is_hipcc(program: str) -> bool:
    name = _name(program)
    return name.startswith("hipcc") and _is_version(name.removeprefix("hipcc").removesuffix(".pl").removesuffix(".bin"))


def which(program: str, cwd: str, environ: Mapping[str, str]) -> str:
    """Its path, as exec would find it; empty if it finds none."""
    if "/" in program:
        return os.path.join(cwd, program)
    for directory in environ.get("PATH", os.defpath).split(":"):
        path = os.path.join(cwd, directory, program)
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return ""


def find(compiler: str, cwd: str, environ: Mapping[str, str]) -> str:
    """As `which`. Raises PassThrough if there is none."""
    program = which(compiler, cwd, environ)
    if not program:
        raise PassThrough("driver", f"no '{compiler}' on PATH")
    return program


def _name(program: str) -> str:
    return program.rpartition("/")[2]


def _is_version(text: str) -> bool:
    """ "", "-15", "-6.2"."""
    return not text or (text[0] == "-" and text[1:].replace(".", "").isdigit())
