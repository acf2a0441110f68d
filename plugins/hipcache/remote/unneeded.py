"""Lets a library be imported without modules that it names and does not use: they are loaded when they are first used.

`grpc` imports `asyncio` (with `ssl` and `subprocess`) and its own interface to it, a fifth of its time, and each build
has to wait for that; `inspect`, too. `google.protobuf` imports what it needs where it has no part in C. Without these
two a helper has 257 modules instead of 280. `importlib.util.LazyLoader` is of no help: Python looks at a module
whenever it is imported again, and that loads it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


class _StandIn(ModuleType):
    """Is the module as soon as anything of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        own = self.__name__
        if sys.modules.get(own) is self:
            sys.modules.pop(own, None)
        return getattr(importlib.import_module(own), name)


@contextmanager
def put_off(*names: str) -> Iterator[None]:
    """Within this, to import one of these modules loads nothing. One that is loaded already stays."""
    made = {name: _StandIn(name) for name in names if name not in sys.modules}
    sys.modules.update(made)
    try:
        yield
    finally:
        for name, one in made.items():
            # Others who import it shall have the module itself.
            if sys.modules.get(name) is one:
                del sys.modules[name]
