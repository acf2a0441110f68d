"""HIPCACHE_BASEDIR: paths below it are keyed and stored without it, so that checkouts in other places share.

ccache rewrites such paths in the command, and with them what ends up in the object. Here the command is run as
it stands, and its result is shared only where the base directory is not in the product (`__FILE__`, debug
information). Else it is a hit in its own checkout only. Messages are stored with a mark in place of the directory.
Known weakness: a value that is computed from `__FILE__` at compile time, and leaves no path behind, is not seen.
"""

from __future__ import annotations

import os
import re
from functools import cached_property

from hipcache.base.patterns import pattern
from hipcache.base.shared import BASEDIR_MARK
from hipcache.processes import encode

MARK = BASEDIR_MARK


# cmCoreTryCompile of CMake: six random characters, for each try_compile() anew.
_PROBE = pattern(r"(/.*/CMakeFiles/CMakeScratch/TryCompile-\w+)(?:/|$)")
_PROBES_TARGET = pattern(r"\bcmTC_[0-9a-f]{5}\b")
_PROBE_MARK = "<probe>"


class Basedir:
    """`path` is absolute, or empty: then nothing is portable but what is the same everywhere. So is what lies below
    `probe`, a directory of a random name, where CMake tries one compile: `cwd`, the working directory, lies in it."""

    def __init__(self, path: str, cwd: str = "") -> None:
        self.path = os.path.normpath(path) if path else ""
        found = _PROBE.match(cwd)
        self.probe = found[1] if found else ""
        #: Told apart by this: results that hold for one of them alone.
        self.name = f"{self.path}:{self.probe}" if self.probe else self.path

    @cached_property
    def _patterns(self) -> tuple[tuple[str, str, re.Pattern[str]], ...]:
        # A probe may lie below the base directory.
        marked = ((self.probe, _PROBE_MARK), (self.path, MARK))
        return tuple((path, mark, re.compile(re.escape(path) + r"(?=[/=:;,\"' ]|$)")) for path, mark in marked if path)

    def portable(self, text: str) -> str:
        """The text with a mark for each of the directories."""
        for path, mark, named in self._patterns:
            if path in text:
                text = named.sub(mark, text)
        return text

    def local(self, text: str) -> str:
        """The reverse of `portable`."""
        for path, mark, _ in self._patterns:
            if mark in text:
                text = text.replace(mark, path)
        return text

    def portable_messages(self, text: str) -> str | None:
        """The text with these marks, from which `local` makes what the compiler would print in another checkout. None
        if that is not certain."""
        marked = self.portable(text)
        sure = self.local(marked) == text and not self.named_in(encode(marked))
        return marked if sure and not any(mark in text for _, mark, _ in self._patterns) else None

    def named_in(self, content: bytes) -> bool:
        """Also where that is in compressed debug information. Of a probe the random name alone: a prefix map may leave
        it."""
        from hipcache.base import elf  # a hit has no new text

        names = (os.fsencode(self.path), os.fsencode(os.path.basename(self.probe)))
        return any(raw in content or elf.may_hold(content, raw) for raw in names if raw)

    def is_taken_away(self, path: str, prefix: str, replacement: str) -> bool:
        """Is nothing of the directory that `path` lies below left in it, once the prefix has been replaced?"""
        inside = self.probe if self.probe and path.startswith(self.probe + "/") else self.path
        return (prefix + "/").startswith(inside + "/") and not self.named_in(os.fsencode(replacement))

    def is_cut(self, prefix: str) -> bool:
        """Is a part of the base directory left where the prefix is replaced, which `named_in` does not know?"""
        return bool(self.path) and self.path != prefix and self.path.startswith(prefix)

    def without_target(self, output: str) -> str:
        """The name of an output without that of the probe's target, which is random, too."""
        return _PROBES_TARGET.sub("cmTC", output) if self.probe else output
