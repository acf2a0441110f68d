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
from hipcache.direct import elsewhere, record
from hipcache.direct.invocations import Variables
from hipcache.engine import Engine
from hipcache.errors import HipcacheError, PassThrough, Refused, StoreError
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.keys import digest_file
from hipcache.remote import invocation
from hipcache.remote.invocation import Invocation, Manifest
from hipcache.values import dataclass, field

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
    _digests: dict[str, str] = field(default_factory=dict)

    def run(self, those: Sequence[Listed]) -> Found:
        """Raises OSError, ValueError where the remote gives no more; what has come by then is kept."""
        end = self.clock() + self.seconds
        found = Found(commands=len(those))
        named = {self._key(one): one for one in those}
        left = {key: one for key, one in named.items() if not self._holds(key, one)}
        found.local = len(those) - len(left)
        for keys in _portions(list(left)):
            self._fetch(keys, end, found)
        variables = Variables(self.engine.environ)
        behind = {key: one for key, one in left.items() if not self._adopt(key, one, variables)}
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

    @property
    def _basedir(self) -> Basedir:
        return Basedir(self.engine.basedir)

    def _key(self, one: Listed) -> str:
        return invocation.key(one.argv, one.cwd, self._basedir.portable)

    def _manifest(self, key: str) -> Manifest:
        return invocation.unpack(self.engine.store.get_action(key))

    def _fitting(self, key: str, one: Listed) -> Invocation | None:
        """What the command came to, as far as the project's own files tell."""
        for known in self._manifest(key).invocations:
            argv = tuple(map(self._local(known), known.argv))
            if invocation.plain(argv) == invocation.plain(one.argv) and all(
                self._digest(self._local(known)(path)) == digest for path, digest in known.reads
            ):
                return known
        return None

    def _local(self, known: Invocation) -> Callable[[str], str]:
        return self._basedir.local if known.everywhere else str

    def _direct_key(self, known: Invocation, one: Listed) -> str:
        """Where the direct record of this command belongs, whatever a manifest would have."""
        argv = tuple(map(self._local(known), known.argv))
        if known.everywhere:
            return elsewhere.key(argv, one.cwd, self.engine.basedir)
        return record.key(argv, one.cwd)

    def _holds(self, key: str, one: Listed) -> bool:
        known = self._fitting(key, one)
        return known is not None and self.engine.store.get_action(self._direct_key(known, one)) is not None

    def _adopt(self, key: str, one: Listed, variables: Variables) -> bool:
        known = self._fitting(key, one)
        if known is None:
            return False
        store = self.engine.store
        content = store.get_blob(known.record)
        if content is None or not all(map(store.has_blob, known.needs)):
            return False
        with suppress(StoreError):
            store.put_action(self._direct_key(known, one), variables.adopted(content, known.tools))
            return True
        return False

    def _digest(self, path: str) -> str:
        """Empty where it cannot be read."""
        if path not in self._digests:
            self._digests[path] = ""
            with suppress(OSError):
                self._digests[path] = digest_file(path)
        return self._digests[path]


def _portions(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[start : start + _MOST_KEYS] for start in range(0, len(keys), _MOST_KEYS))
