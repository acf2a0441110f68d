"""Regular expressions that are compiled when they are first used.

Python compiles them by Python code: the 80 that the modules of one compile have take 10 ms, of which most compiles need
half. As Breezy's `lazy_regex` does it. Type checkers see `re.compile`; each pattern is compiled in a test.
"""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pattern = re.compile
else:
    _METHODS = ("finditer", "findall", "fullmatch", "match", "search", "split", "sub", "subn")
    _compiling = threading.Lock()

    class pattern:
        """`re.compile(text, flags)`, later."""

        def __init__(self, text, flags=0):
            self.pattern, self.flags = text, flags

        def __getattr__(self, name):
            if name not in _METHODS:
                raise AttributeError(name)
            with _compiling:  # the passes of one compile come to the same ones at once
                if name not in self.__dict__:
                    compiled = re.compile(self.pattern, self.flags)
                    self.__dict__.update((method, getattr(compiled, method)) for method in _METHODS)
            return self.__dict__[name]
