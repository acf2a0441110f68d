"""Plain clang's results within one test, so that the same command on the same tree is not run twice.

A result is used again only where nothing that clang can see has changed since: the command, the directory, the
environment, and every file, directory and link below the test's own directory, by status (inode, mode, size, both
times; a link by its target). The change time cannot be set back, and at least one whole compile lies between two looks,
so a file that was written has another status. Not for a tree or command that asks for the time, nor for a tree of more
than `_MOST` files. One use in twenty is an audit: clang runs all the same, and must do what it did before.
"""

from __future__ import annotations

import os
import stat
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from golden_of_all import GoldenOfAll, Question

Result = TypeVar("Result")

_MOST = 1000
_CLOCK = (b"__DATE__", b"__TIME__", b"__TIMESTAMP__", b"SOURCE_DATE_EPOCH", b"faketime")
# Sources are small; what is larger is an object, a library or a tool.
_SOURCE = 1 << 20


@dataclass(frozen=True)
class Tree:
    """What is below a directory. `newest`: when something in it last changed, in seconds of the epoch."""

    entries: tuple[tuple[object, ...], ...]
    newest: float
    asks_for_time: bool

    @classmethod
    def of(cls, top: Path, without: Collection[Path]) -> Tree:
        """`without`: paths that are left out, with all below them."""
        left_out = {os.fspath(path) for path in without}
        entries, newest, asks = [], 0, False
        for path, found in _below(os.fspath(top), left_out):
            newest = max(newest, found.st_ctime_ns)
            known: tuple[object, ...] = (path, found.st_mode, found.st_ino, found.st_dev)
            if stat.S_ISLNK(found.st_mode):
                known += (os.readlink(path),)
            elif stat.S_ISREG(found.st_mode):
                known += (found.st_size, found.st_mtime_ns, found.st_ctime_ns)
                asks = asks or (found.st_size < _SOURCE and _asks_for_time(known))
            entries.append(known)
        return cls(tuple(sorted(entries, key=itemgetter(0))), newest / 1e9, asks)

    def settle(self, age: float) -> None:
        """Wait until all in it is older than that. (What is newer than the clock never is.)"""
        wait = self.newest + age - time.time()
        if 0 < wait <= age:
            time.sleep(wait)


def _below(top: str, left_out: Collection[str]) -> Iterator[tuple[str, os.stat_result]]:
    for entry in os.scandir(top):
        if entry.path not in left_out:
            with suppress(FileNotFoundError):  # a process of the test may be at work
                yield entry.path, entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    yield from _below(entry.path, left_out)


@lru_cache(maxsize=1 << 16)
def _asks_for_time(known: tuple[object, ...]) -> bool:
    """`known`: the file's path and status."""
    try:
        with open(str(known[0]), "rb") as file:
            content = file.read()
    except OSError:
        return True
    return any(word in content for word in _CLOCK)


@dataclass
class Golden:
    """The results of one test. `reused`: how often one was used again."""

    results: dict[tuple[object, ...], Any] = field(default_factory=dict)
    reused: int = 0
    audited_one_in: int = 20
    of_all: GoldenOfAll | None = None

    def get(
        self,
        run: Callable[[], Result],
        command: Sequence[str],
        cwd: Path,
        environ: Mapping[str, str],
        tree: Tree,
        look: Callable[[], Tree] | None = None,
        guess: Callable[[], Result] | None = None,
        everywhere: bool = True,
    ) -> Result:
        """What `run` gives, or gave for the same: another function may take other things along. `look`: gives the tree
        anew, where another test's result will do; `guess`, `everywhere`: see `golden_of_all`."""
        words = os.fsencode("\0".join([*command, *environ, *environ.values()]))
        if tree.asks_for_time or len(tree.entries) > _MOST or any(word in words for word in _CLOCK):
            return run()
        taken = f"{run.__module__}.{run.__qualname__}"
        key = (tuple(command), cwd, tuple(sorted(environ.items())), tree.entries, taken)
        if key not in self.results:
            asked = Question(command, cwd, environ, look, everywhere) if look else None
            self.results[key] = self.of_all.get(run, asked, guess) if self.of_all and asked else run()
        else:
            self.reused += 1
            if zlib.crc32(repr((key[:2], self.reused)).encode()) % self.audited_one_in == 0:
                assert run() == self.results[key], "plain clang differs from itself, or sees what its key does not hold"
        known: Result = self.results[key]
        return known
