"""Test modules whose assertions pytest has rewritten, written to disk once, before the workers of xdist import them.

Rewriting takes more than half of a collection, and on a fresh clone all workers begin with it at once.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path


def modules(arguments: Iterable[str], cwd: Path, directory: Path) -> list[str]:
    """Names of the test modules of the tiers in `directory` that a command line of pytest in `cwd` asks for."""
    names = set()
    for argument in arguments:
        place = (cwd / argument.partition("::")[0]).resolve()
        for path in directory.glob("*/test_*.py"):
            if place in (path, *path.parents):
                names.add(path.stem)
    return sorted(names)


def write(names: Sequence[str], processes: int) -> None:
    """Writes what is not up to date yet, with that many processes. A failure is left to who imports the module."""
    if sys.dont_write_bytecode:
        return
    children = []
    for number in range(processes):
        child = os.fork()
        if child == 0:
            gc.disable()  # which would take three quarters of the time
            try:
                for name in names[number::processes]:
                    with suppress(Exception):
                        _write(name)
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def _write(name: str) -> None:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Without `__import__` the module ends at its first line; pytest has written it by then.
    module.__dict__["__builtins__"] = {}
    spec.loader.exec_module(module)
