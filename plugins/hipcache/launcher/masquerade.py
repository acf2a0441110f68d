"""hipcache under a compiler's name: finds the real compiler. native/masquerade.c has the same rules and the reasons for
them; with a native launcher, it runs first."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping, Sequence

from hipcache import shared
from hipcache.planning import tools

_OTHER_COMPILERS = frozenset(["c++", "cc", "g++", "gcc"])


def unmask(started_as: str, argv: Sequence[str], environ: MutableMapping[str, str]) -> list[str] | str:
    """The command, the compiler first; the name of the link if there is no other program of that name.

    `started_as`: this program's own path."""
    name = os.path.basename(started_as)
    rest = list(argv)
    if not _is_compiler(name):
        if not argv or not _is_compiler(os.path.basename(argv[0])):
            return rest
        if not _is_this(tools.which(argv[0], "", environ), started_as):
            return rest
        name, rest = os.path.basename(argv[0]), rest[1:]
    found = _real_compiler(name, started_as, environ)
    if not found:
        return name
    environ[shared.PASSED_VARIABLE] = f"{name}={found}"
    return [found, *rest]


def _is_compiler(name: str) -> bool:
    """`clang++-15`, `hipcc`, `x86_64-linux-gnu-g++-12`. A target may stand before a hyphen."""
    if tools.is_hipcc(name) or tools.is_iree_compile(name):
        return True
    while "hipcache" not in name:
        if tools.is_clang(name) or tools.without_version(name) in _OTHER_COMPILERS:
            return True
        _, hyphen, name = name.partition("-")
        if not hyphen:
            break
    return False


def _is_this(path: str, started_as: str) -> bool:
    try:
        return bool(path) and os.path.samefile(path, started_as)
    except OSError:
        return False


def _real_compiler(name: str, started_as: str, environ: Mapping[str, str]) -> str:
    on_path = [path for place in environ.get("PATH", "").split(":") if _is_program(path := os.path.join(place, name))]
    passed_name, _, passed = environ.get(shared.PASSED_VARIABLE, "").partition("=")
    again = passed_name == name
    begin = 0
    for number, path in enumerate(on_path):
        if path == passed if again else _is_this(path, started_as):
            begin = number + 1
            break
    candidates = on_path[begin:] if again else on_path[begin:] + on_path[:begin]
    return next((path for path in candidates if not _is_this(path, started_as)), "")


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
