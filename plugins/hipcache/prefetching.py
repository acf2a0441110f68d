"""Fetches what a whole build needs from the remote, before its first compile: `hipcache prefetch`.

No driver is asked, and nothing is compiled. For all commands at once: their invocation manifests (one round trip), the
direct records and objects that these name (a second one); then, for commands whose sources differ from those of the
record, all keys that such a command has asked for (three more). What is not found so, each compile asks for itself.

A direct record that came counts as any other: the native launcher compares all that it lists.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from hipcache import kinds
from hipcache.config import Config
from hipcache.direct.adopted import Adoption
from hipcache.engine import Engine
from hipcache.errors import HipcacheError, PassThrough, Refused
from hipcache.remote import invocation
from hipcache.remote.invocation import Manifest
from hipcache.values import dataclass

# Keys of one question.
_MOST_KEYS = 4000
_HINT = "name the build's compile_commands.json: CMake writes it with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON"


@dataclass(frozen=True)
class Listed:
    """A command of a build, without hipcache before it, and the directory that it runs in."""

    argv: tuple[str, ...]
    cwd: str


@dataclass
class Found:
    """How many commands there are for HIP, whose whole results were in the store, came, and are not to be had; and how
    many keys came for these. `served_by`: the remote."""

    commands: int = 0
    local: int = 0
    whole: int = 0
    missing: int = 0
    keys: int = 0
    served_by: str = ""


def listed(path: str) -> list[Listed]:
    """The commands of a compilation database (https://clang.llvm.org/docs/JSONCompilationDatabase.html). Raises
    HipcacheError."""
    try:
        with open(path, "rb") as file:
            entries = json.loads(file.read().decode("utf-8", "surrogateescape"))
        return [_listed(one) for one in entries]
    except OSError as error:
        raise HipcacheError(f"cannot read '{path}': {error.strerror}", _HINT) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HipcacheError(f"'{path}' is no list of compile commands: {error!r}", _HINT) from error


def _listed(entry: dict[str, object]) -> Listed:
    given = entry.get("arguments")
    words = [str(word) for word in given] if isinstance(given, list) else shlex.split(str(entry["command"]))
    return Listed(invocation.behind_launchers(words), os.path.realpath(str(entry["directory"])))


def of_ours(those: Sequence[Listed], engine: Engine, config: Config) -> list[Listed]:
    """The HIP compiles among them."""
    found = []
    for one in dict.fromkeys(those):
        with suppress(PassThrough, Refused, OSError, IndexError):
            kinds.read(one.argv, one.cwd, engine.environ, config)
            found.append(one)
    return found


@dataclass
class Prefetch:
    """`seconds`: all that it may take."""

    engine: Engine
    seconds: float
    clock: Callable[[], float] = time.monotonic

    def run(self, those: Sequence[Listed]) -> Found:
        """Raises OSError, ValueError where the remote gives no more; what has come by then is kept."""
        end = self.clock() + self.seconds
        found = Found(commands=len(those))
        adoption = Adoption(self.engine.store, self.engine.environ, self.engine.basedir)
        named = {adoption.key(one.argv, one.cwd): one for one in those}
        left = {key: one for key, one in named.items() if not self._holds(adoption, key, one)}
        found.local = len(those) - len(left)
        for keys in _portions(list(left)):
            self._fetch(keys, end, found)
        behind = {key: one for key, one in left.items() if not self._adopt(adoption, key, one)}
        found.whole, found.missing = len(left) - len(behind), len(behind)
        asked = dict.fromkeys(name for key in behind for name in self._manifest(key).asked)
        for keys in _portions([name for name in asked if self.engine.store.get_action(name) is None]):
            found.keys += self._fetch(keys, end, found)
        return found

    def _fetch(self, keys: Sequence[str], end: float, found: Found) -> int:
        assert self.engine.remote
        hits, served = self.engine.remote().fetch_ahead(keys, max(0.0, end - self.clock()))
        found.served_by = served or found.served_by
        return hits

    def _manifest(self, key: str) -> Manifest:
        return invocation.unpack(self.engine.store.get_action(key))

    def _holds(self, adoption: Adoption, key: str, one: Listed) -> bool:
        known = adoption.fitting(self._manifest(key), one.argv)
        return known is not None and adoption.is_here(known, one.cwd)

    def _adopt(self, adoption: Adoption, key: str, one: Listed) -> bool:
        known = adoption.fitting(self._manifest(key), one.argv)
        return known is not None and adoption.adopt(known, one.cwd)


def _portions(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[start : start + _MOST_KEYS] for start in range(0, len(keys), _MOST_KEYS))
