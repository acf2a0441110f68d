"""Fetches what a whole build needs from the remote, before its first compile: `hipcache prefetch`.

No driver is asked, and nothing is compiled. For all commands at once: their invocation manifests (one round trip), the
direct records and objects that these name (a second one); then, for commands whose sources differ from those of the
record, all keys that such a command has asked for (three more). What is not found so, each compile asks for itself.

A direct record that came counts as any other: the native launcher compares all that it lists.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from hipcache.errors import HipcacheError, StoreError
from hipcache.remote import invocation
from hipcache.remote.helper import commands
from hipcache.remote.helper.adoption import Adoption
from hipcache.remote.helper.commands import Listed, Question, listed
from hipcache.remote.helper.transfer import Backlog
from hipcache.remote.invocation import Invocation, Manifest
from hipcache.report.outcome import HOST
from hipcache.store import Store
from hipcache.values import dataclass, field

# Keys of one question.
_MOST_KEYS = 4000
# Direct records in memory, which may have some 100 kB each.
_TOGETHER = 64


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
    behind: Backlog | None = None
    _held: Backlog = field(init=False)

    def __post_init__(self) -> None:
        self._held = self.behind or Backlog(self.store)

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


LIST = "compile_commands.json"
# Seconds: between two who ask; for a window that another one fetches; after which a window says nothing any more.
LATELY, PATIENCE, LASTING, TICK = 5.0, 1.0, 60.0, 0.1
_FIRST, _MOST_WINDOW = 64, 512
_MOST_BYTES = 64 << 20
_MOST_LISTS = 16


@dataclass
class Window:
    """Commands that are on their way, by their place in the list."""

    places: range
    begun: float
    done: threading.Event = field(default_factory=threading.Event)


@dataclass
class _List:
    """`state`: of the file; `places`: of sources, as the list and as a command may name them."""

    state: tuple[int, ...]
    entries: list[dict[str, object]]
    places: dict[str, int]
    asked: float = float("-inf")
    windows: list[Window] = field(default_factory=list)


@dataclass
class Neighbours:
    """Fetches the commands that stand behind one in the list of a build, when compiles ask for one after the other.

    A build tool runs its commands about in the order of their list, and each that asks alone waits for two round trips.
    So who asks second within LATELY seconds, in a directory with a compile_commands.json, has a window of commands
    fetched, from its own one on, in the same two round trips; the next window is twice as large. One that asks for a
    command of a window that is on its way waits for that. A build of one file asks once: nothing is fetched for it.

    Commands that begin together ask in any order. So a window ends where another one begins: else who asks with the
    place before that one's would have all of it fetched once more, at the same time.

    `fetch` has commands fetched for who has asked.
    """

    fetch: Callable[[Question, Sequence[Listed], Callable[[], object]], object]
    clock: Callable[[], float] = time.monotonic
    _lists: dict[str, _List] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def come(self, asked: Question, alive: Callable[[], object]) -> bool:
        """Has the command come with others, or been looked for with them? Raises nothing but what `alive` does."""
        window, mine = self._window(asked)
        if window is None:
            return False
        if mine:
            try:
                entries = self._lists[asked.cwd].entries
                self.fetch(asked, commands.chosen(entries[place] for place in window.places), alive)
            except (ValueError, KeyError, TypeError, AttributeError):
                pass  # no list of commands
            finally:
                window.done.set()
        end = self.clock() + PATIENCE
        while not window.done.wait(TICK) and self.clock() < end:
            alive()
        return window.done.is_set()

    def _window(self, asked: Question) -> tuple[Window | None, bool]:
        """That the command is in, and whether it is to be fetched by who asks."""
        with self._lock:
            known = self._known(asked.cwd)
            place = _place(known, asked) if known else None
            if known is None or place is None:
                return None, False
            known.windows = [one for one in known.windows if self.clock() - one.begun < LASTING]
            for window in known.windows:
                if place in window.places:
                    return window, False
            lately, known.asked = self.clock() - known.asked < LATELY, self.clock()
            if not lately:
                return None, False
            size = min(_FIRST << sum(len(one.places) >= _FIRST for one in known.windows), _MOST_WINDOW)
            behind = (one.places.start for one in known.windows if one.places.start > place)
            end = min(place + size, len(known.entries), *behind)
            known.windows.append(Window(range(place, end), self.clock()))
            return known.windows[-1], True

    def _known(self, directory: str) -> _List | None:
        path = os.path.join(directory, LIST)
        try:
            found = os.stat(path)
            state = found.st_ino, found.st_size, found.st_mtime_ns
            known = self._lists.get(directory)
            if known is None or known.state != state:
                known = self._read(path, directory, state)
                while len(self._lists) >= _MOST_LISTS:
                    del self._lists[next(iter(self._lists))]
                self._lists[directory] = known
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return known

    @staticmethod
    def _read(path: str, directory: str, state: tuple[int, ...]) -> _List:
        if state[1] > _MOST_BYTES:
            return _List(state, [], {})
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            entries = json.load(file)
        places: dict[str, int] = {}
        for place, entry in enumerate(entries):
            places.setdefault(os.path.join(directory, str(entry["file"])), place)
        return _List(state, entries, places)


def _place(known: _List, asked: Question) -> int | None:
    named = (os.path.join(asked.cwd, word) for word in asked.argv[1:] if not word.startswith("-"))
    return next((known.places[path] for path in named if path in known.places), None)
