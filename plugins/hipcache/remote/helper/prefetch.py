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
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from hipcache.errors import HipcacheError, StoreError
from hipcache.planning import tools
from hipcache.planning.assembler import WORTH
from hipcache.remote import invocation
from hipcache.remote.helper.adoption import Adoption
from hipcache.remote.helper.backlog import Behind
from hipcache.remote.invocation import Invocation, Manifest
from hipcache.report.outcome import HOST
from hipcache.store import Store
from hipcache.values import dataclass, field

# Keys of one question.
_MOST_KEYS = 4000
# Words of a compile of HIP; those of the target of AMD's GPUs, and of their assembler.
_LANGUAGE = frozenset(["hip", "-xhip", "--language=hip"])
_GPU = ("amdgcn", "--target=amdgcn")
_ASSEMBLER = frozenset(["assembler", "-xassembler", "--language=assembler"])
# Direct records in memory, which may have some 100 kB each.
_TOGETHER = 64
_HINT = "name the build's compile_commands.json: CMake writes it with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON"


@dataclass(frozen=True)
class Listed:
    """A command of a build, without hipcache before it, and the directory that it runs in. `parts`: who runs it puts it
    together of the results that it asks for, and has no use for the whole (see `hipcache_scons/ahead`)."""

    argv: tuple[str, ...]
    cwd: str
    parts: bool = False


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

    def told(self) -> str:
        compiles = f"{self.commands} HIP compile{'s' if self.commands != 1 else ''}"
        results = f"{self.keys} result{'s' if self.keys != 1 else ''}"
        parts = [f"{self.whole} fetched", f"{self.local} already here", f"{self.missing} to compile or look up"]
        whence = f" from {self.served_by}" if self.served_by else ""
        return f"hipcache: of {compiles} {', '.join(parts)}; {results} of these{whence}"


def listed(path: str) -> list[Listed]:
    """The compiles of HIP in a compilation database (https://clang.llvm.org/docs/JSONCompilationDatabase.html). Raises
    HipcacheError."""
    try:
        # A pipe may never say anything.
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise HipcacheError(f"cannot read '{path}': it is not a file", _HINT)
            return chosen(json.loads(file.read().decode("utf-8", "surrogateescape")))
    except OSError as error:
        raise HipcacheError(f"cannot read '{path}': {error.strerror}", _HINT) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise HipcacheError(f"'{path}' is not a list of compile commands: {error!r}", _HINT) from error


def chosen(entries: Iterable[dict[str, object]]) -> list[Listed]:
    """The compiles of HIP among them. Raises ValueError, KeyError, TypeError, AttributeError for what is no entry."""
    found = dict.fromkeys(_listed(one) for one in entries)
    return [one for one in found if "-c" in one.argv and not is_plain(one.argv) and _can_be(one)]


def is_plain(argv: Sequence[str]) -> bool:
    """Is it certainly a compile, and certainly not HIP? As `native/launcher.c` has it."""
    words = argv[1:]
    return (
        "-c" in words
        and not tools.is_hipcc(tools.behind(argv)[0])
        and not any(word in _LANGUAGE or word.endswith(".hip") or word.startswith("@") for word in words)
        and not _assembles_for_gpu(words)
    )


def _assembles_for_gpu(words: Sequence[str]) -> bool:
    """Perhaps (`planning/assembler` knows), and is it worth it?"""
    return (
        any(word.startswith(_GPU) for word in words)
        and any(word in _ASSEMBLER or word.endswith(".s") for word in words)
        and any(os.path.isfile(word) and os.path.getsize(word) >= WORTH for word in words)
    )


def _can_be(one: Listed) -> bool:
    """Could these be the words and the directory of a process? JSON has halves of characters, too."""
    try:
        return b"\0" not in b"".join(map(os.fsencode, (*one.argv, one.cwd)))
    except UnicodeError:
        return False


def _listed(entry: dict[str, object]) -> Listed:
    given = entry.get("arguments")
    words = [str(word) for word in given] if isinstance(given, list) else shlex.split(str(entry["command"]))
    argv = invocation.behind_launchers(words)
    return Listed(argv, os.path.realpath(str(entry["directory"])), entry.get("parts") is True)


@dataclass
class Prefetch:
    """`fetch` puts what a remote has of these keys into the store: how many came, and from which. Where it is told so,
    of manifests the records alone. `note` is told of each command that has come whole: see `Fetches`."""

    store: Store
    adoption: Adoption
    fetch: Callable[[Sequence[str], bool], tuple[int, str]]
    count: Callable[[Mapping[str, int]], object] = bool
    note: Callable[[Sequence[str], str, str], object] = lambda argv, cwd, remote: None
    clock: Callable[[], float] = time.monotonic
    behind: Behind | None = None
    _held: Behind = field(init=False)

    def __post_init__(self) -> None:
        self._held = self.behind or Behind(self.store)

    def run(self, those: Sequence[Listed]) -> Found:
        """What has come is kept, whatever happens behind that."""
        found = Found(commands=len(those))
        named = {self.adoption.key(one.argv, one.cwd): one for one in those}
        left = {key: one for key, one in named.items() if not self._is_here(key, one)}
        found.local = len(those) - len(left)
        began = self.clock()
        for parts in (False, True):
            self._fetch([key for key, one in left.items() if one.parts is parts], found, parts)
        whole: dict[str, Invocation] = {}
        for portion in _portions(list(left), _TOGETHER):
            whole |= self._adopt(portion, left)
        self._count_time(list(whole.values()), round((self.clock() - began) * 1000))
        for key in whole if found.served_by else ():
            self.note(left[key].argv, left[key].cwd, found.served_by)
        behind = [key for key in left if key not in whole]
        found.whole, found.missing = len(left) - len(behind), len(behind)
        asked = dict.fromkeys(name for key in behind for name in self._manifest(key).asked)
        found.keys = self._fetch([name for name in asked if self.store.get_action(name) is None], found)
        return found

    def _count_time(self, whole: Sequence[Invocation], milliseconds: int) -> None:
        """Each compile has its part of what all have taken together, and each of its units the same."""
        counts = Counter[str]()
        for number, known in enumerate(whole):
            part = milliseconds * (number + 1) // len(whole) - milliseconds * number // len(whole)
            counts.update({f"{unit} milliseconds": part for unit in (*known.arches, HOST)})
        self.count(counts)

    def _fetch(self, keys: Sequence[str], found: Found, records_alone: bool = False) -> int:
        came = 0
        for portion in _portions(keys, _MOST_KEYS):
            hits, served = self.fetch(portion, records_alone)
            came, found.served_by = came + hits, served or found.served_by
        return came

    def _manifest(self, key: str) -> Manifest:
        return invocation.unpack(self._held.record(key))

    def _fitting(self, key: str, one: Listed) -> Invocation | None:
        return self.adoption.fitting(self._manifest(key), one.argv)

    def _is_here(self, key: str, one: Listed) -> bool:
        known = self._fitting(key, one)
        return known is not None and self.adoption.is_here(known, one.cwd)

    def _adopt(self, keys: Sequence[str], those: Mapping[str, Listed]) -> dict[str, Invocation]:
        """Those whose direct records are in the store now; they are put there together."""
        records, whole, counts = dict[str, bytes](), dict[str, Invocation](), Counter[str]()
        for key in keys:
            known = None if those[key].parts else self._fitting(key, those[key])
            record = self.adoption.record(known, those[key].cwd) if known else {}
            if record and known:
                records |= record
                whole[key] = known
                counts.update(of_whole(self._held.size, known))
        with suppress(StoreError):
            self.store.put_actions(records)
            self.count(counts)
            return whole
        return {}


def of_whole(size_of: Callable[[str], int | None], known: Invocation, milliseconds: int = 0) -> dict[str, int]:
    """What to count for the units of a compile that came whole: its bytes belong to all of them alike."""
    units = [*known.arches, HOST]
    size = sum(size_of(name) or 0 for name in known.contents)
    each = {"hits": 1, "bytes": size // len(units), "milliseconds": milliseconds}
    return {f"{unit} {name}": number for unit in units for name, number in each.items()}


def of_fault(argv: Sequence[str]) -> dict[str, int]:
    """What to count for the units of a compile that could not be asked for."""
    return {f"{unit} {name}": 1 for unit in (*invocation.arches(argv), HOST) for name in ("errors", "misses")}


def ahead_of_build(file: str, prefetch: Prefetch) -> dict[str, object]:
    """As the answer of `remote/client` has it: what it came to, or the file's fault."""
    try:
        return {"text": prefetch.run(listed(file)).told()}
    except HipcacheError as error:
        return {"wrong": [error.message, error.hint]}


def _portions(keys: Sequence[str], most: int) -> Iterator[Sequence[str]]:
    return (keys[start : start + most] for start in range(0, len(keys), most))
