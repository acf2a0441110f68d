"""HIPCACHE_BASEDIR: paths below it are keyed and stored without it, so that checkouts in other places share.

ccache rewrites such paths in the command, and with them what ends up in the object. Here the command is run as
it stands, and its result is shared only where the base directory is not in it: neither in the
product (`__FILE__`, debug information) nor in the messages. Else it is a hit in its own checkout only.
Known weakness: a value that is computed from `__FILE__` at compile time, and leaves no path behind, is not seen.
"""

from __future__ import annotations

import os
import re
from functools import cached_property

from hipcache.inputs import packed
from hipcache.shared import BASEDIR_MARK

MARK = BASEDIR_MARK


class Basedir:
    """`path` is absolute, or empty: then nothing is portable but what is the same everywhere."""

    def __init__(self, path: str) -> None:
        self.path = os.path.normpath(path) if path else ""

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(re.escape(self.path) + r"(?=[/=:;,\"' ]|$)")

    def portable(self, text: str) -> str:
        """The text with the base directory replaced by a mark."""
        return self._pattern.sub(MARK, text) if self.path and self.path in text else text

    def local(self, text: str) -> str:
        """The reverse of `portable`."""
        return text.replace(MARK, self.path) if self.path and MARK in text else text

    def named_in(self, content: bytes) -> bool:
        """Also where that is in compressed debug information."""
        raw = os.fsencode(self.path)
        return bool(raw) and (raw in content or packed.may_hold(content, raw))
