"""The storage helper's fetches: from one remote after the other, each within a time limit."""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from typing import Any

from hipcache.base.errors import HipcacheError, StoreError
from hipcache.base.values import dataclass, field
from hipcache.config import Config, basedir_at
from hipcache.remote import invocation
from hipcache.remote.breaker import MEMORY, Breaker
from hipcache.remote.helper import commands
from hipcache.remote.helper.commands import Listed, Question, listed
from hipcache.remote.helper.remotes import Remote
from hipcache.remote.helper.transfer import Backlog, TransferCounts
from hipcache.remote.invocation import Adoption, Invocation, Manifest, Searches
from hipcache.report import statistics
from hipcache.report.outcome import HOST
from hipcache.store.local import LocalStore

SILENCE = 0.9  # of an address's timeout; less than the client's
TICK = 0.1
_ANSWER = 1 << 10  # bytes that each answer counts for, besides its content
_MOST_BUILDS, _LONGEST_BUILD = 100, 86400.0

Alive = Callable[[], object]
# Is told of the bytes that came with each answer.
Progress = Callable[[int], object]
Note = Callable[[Sequence[str], str, str], object]


@dataclass
class Fetches:
    """`fault`: why there are no remotes, and what to do about it; `note` is told of a whole compile that has come: its
    command, the directory, and the remote. All of them share searches in tools, and what is written later."""

    config: Config
    store: LocalStore
    remotes: list[Remote]
    fault: list[str] | None = None
    note: Note = lambda argv, cwd, remote: None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _builds: dict[str, Breaker] = field(default_factory=dict)
    _neighbours: Neighbours = field(init=False)
    _behind: Backlog = field(init=False)
    _searches: Searches = field(default_factory=Searches)

    def __post_init__(self) -> None:
        self._neighbours = Neighbours(self._window)
        self._behind = Backlog(self.store)

    def end(self) -> None:
        """Nothing is left for later."""
        self._behind.write()

    def account(self, build: str) -> Breaker:
        """What bad remotes have cost that build, all of them together: one that takes hours would else lose a second by
        each of them again and again, as they come and go."""
        with self._lock:
            if build not in self._builds:
                if len(self._builds) >= _MOST_BUILDS:
                    del self._builds[next(iter(self._builds))]
                timeout = max((remote.address.timeout for remote in self.remotes), default=1.0)
                self._builds[build] = Breaker(timeout, memory=_LONGEST_BUILD if build else MEMORY)
            return self._builds[build]

    def fetch(
        self, keys: list[str], alive: Alive, build: Breaker, *, ahead: bool, manifests: bool | None = None
    ) -> dict[str, Any]:
        """Ask one remote after the other, for what the first ones do not have. `ahead`: for a whole build, by a program
        with a time limit of its own; `manifests`: these are invocation manifests, whose contents are not wanted; None:
        a compile asks."""
        told = self.fault
        served, asked, found = "", len(keys), list[str]()
        questions = answers = 0
        for remote in self.remotes:
            if not (remote.address.reads and keys) or build.why:
                continue
            began, received = time.monotonic(), remote.received
            questions += not remote.breaker.why
            tally = self._from(remote, self._of_keys(remote, keys, manifests), alive, len(keys), ahead=ahead)
            answers += tally is not None
            if not ahead or remote.breaker.why:
                build.spent(began, remote.received - received)
            if tally and tally.found:
                served = remote.address.name
                found += tally.found
                keys = [key for key in keys if key not in tally.found]
            told = told or remote.fault()
        counts = {"hits": asked - len(keys), "questions": questions, "answers": answers}
        return {"fetched": bool(served), **counts, "found": found, "from": served, "told": told}

    def _of_keys(self, remote: Remote, keys: list[str], manifests: bool | None) -> Callable[[Progress], TransferCounts]:
        if manifests:
            return lambda progress: remote.open().fetch_manifests(keys, progress)
        behind = None if manifests is None else self._behind
        return lambda progress: remote.open().fetch(keys, progress, behind)

    def ahead(
        self, file: str, directory: str, environ: Mapping[str, str], alive: Alive, build: Breaker
    ) -> dict[str, Any]:
        """All that the build with these commands needs, which is at home in that directory; the answer as of
        `client.prefetch`."""
        told: list[str] | None = None

        def fetch(keys: Sequence[str], manifests: bool) -> tuple[int, str]:
            nonlocal told
            answer = self.fetch(list(keys), alive, build, ahead=True, manifests=manifests)
            told = told or answer["told"]
            return answer["hits"], answer["from"]

        return {**ahead_of_build(file, self._prefetch(environ, directory, fetch)), "told": told}

    def _prefetch(
        self, environ: Mapping[str, str], cwd: str, fetch: Callable[[Sequence[str], bool], tuple[int, str]]
    ) -> Prefetch:
        return Prefetch(self.store, self._adoption(environ, cwd), fetch, self._count, self.note, behind=self._behind)

    def _adoption(self, environ: Mapping[str, str], cwd: str) -> Adoption:
        """For a command with these variables."""
        base = basedir_at(self.config, environ, cwd)
        return Adoption(self.store, environ, base, self._searches, self._behind.content)

    def _window(self, asked: Question, those: Sequence[Listed], alive: Alive) -> None:
        def fetch(keys: Sequence[str], manifests: bool) -> tuple[int, str]:
            answer = self.fetch(list(keys), alive, self.account(""), ahead=False, manifests=manifests)
            return answer["hits"], answer["from"]

        self._prefetch(asked.environ, asked.cwd, fetch).run(those)

    def whole(self, asked: Question, alive: Alive) -> bool:
        """Is the direct record of that compile, and all that it needs, in the local store now?"""
        adoption = self._adoption(asked.environ, asked.cwd)

        def choose(manifest: Manifest) -> Invocation | None:
            known = adoption.fitting(manifest, asked.argv)
            return known if known and adoption.is_of(known, asked.argv) else None

        key = adoption.key(asked.argv, asked.cwd)
        known = choose(invocation.unpack(self._behind.record(key)))
        if known and adoption.adopt(known, asked.cwd):
            return True
        if self.config.prefetch and self._neighbours.come(asked, alive):
            known = choose(invocation.unpack(self._behind.record(key)))
            if known and (adoption.is_here(known, asked.cwd) or adoption.adopt(known, asked.cwd)):
                return True
        build = self.account("")
        for remote in self.remotes:
            if not remote.address.reads or build.why:
                continue
            began, received = time.monotonic(), remote.received
            chosen: list[Invocation] = []

            def work(progress: Progress, remote: Remote = remote, chosen: list[Invocation] = chosen) -> TransferCounts:
                record, tally = remote.open().fetch_invocation(key, choose, progress)
                chosen += [record] if record else []
                return tally

            was_well = not remote.breaker.why
            if self._from(remote, work, alive, 1, ahead=False) is None and was_well:
                self._count(of_fault(asked.argv))
            build.spent(began, remote.received - received)
            if chosen and adoption.adopt(chosen[0], asked.cwd):
                self._count(of_whole(self._behind.size, chosen[0], round((time.monotonic() - began) * 1000)))
                self.note(asked.argv, asked.cwd, remote.address.name)
                return True
        return False

    def _from(
        self, remote: Remote, work: Callable[[Progress], TransferCounts], alive: Alive, wanted: int, *, ahead: bool
    ) -> TransferCounts | None:
        """None where the remote is at fault, which is counted."""
        if remote.breaker.why:
            return None
        began = last = time.monotonic()
        came: list[int] = []  # several threads may add to a list, but not to a number

        def progress(size: int) -> None:
            nonlocal last
            last = time.monotonic()
            came.append(size + _ANSWER)

        future = _beside(lambda: work(progress))
        while not future.done():
            with suppress(NotYet):
                future.exception(TICK)
            alive()
            is_silent = time.monotonic() - last > SILENCE * remote.address.timeout
            if not future.done() and (is_silent or remote.breaker.is_too_slow(began, sum(came), ahead=ahead)):
                remote.breaker.open("it does not answer in time" if is_silent else "it is slow")
                self._count({"errors": 1, "misses": wanted})
                return None
        error = future.exception()
        if error is not None:
            remote.failed(error)
            self._count({"errors": 1, "misses": wanted})
            return None
        tally = future.result()
        if not ahead:
            remote.breaker.spent(began, tally.received)
        remote.judge(tally)
        counts = {
            "hits": tally.hits,
            "misses": tally.misses,
            "errors": tally.errors,
            "received": tally.received,
            "milliseconds": round((time.monotonic() - began) * 1000),
        }
        self._count(counts)
        return tally

    def _count(self, counts: Mapping[str, int]) -> None:
        statistics.count(self.config.dir, "remote", counts, self.config.umask)


def _beside(work: Callable[[], TransferCounts]) -> Future[TransferCounts]:
    """In a thread of its own, which nobody waits for at the end."""
    future: Future[TransferCounts] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


# Fetches what a whole build needs from the remote, before its first compile: `hipcache prefetch`.
#
# No driver is asked, and nothing is compiled. For all commands at once: their invocation manifests (one round trip),
# the direct records and objects that these name (a second one); then, for commands whose sources differ from those of
# the record, all keys that such a command has asked for (three more). What is not found so, each compile asks for
# itself.
#
# A direct record that came counts as any other: the native launcher compares all that it lists.

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

    store: LocalStore
    adoption: Adoption
    fetch: Callable[[Sequence[str], bool], tuple[int, str]]
    count: Callable[[Mapping[str, int]], object] = bool
    note: Note = lambda argv, cwd, remote: None
    clock: Callable[[], float] = time.monotonic
    behind: Backlog | None = None
    _held: Backlog = field(init=False)

    def __post_init__(self) -> None:
        self._held = self.behind or Backlog(self.store)

    def run(self, those: Sequence[Listed]) -> Found:
        """What has come is kept, whatever happens behind that."""
        found = Found(commands=len(those))
        named = {self.adoption.key(listed.argv, listed.cwd): listed for listed in those}
        left = {key: listed for key, listed in named.items() if not self._is_here(key, listed)}
        found.local = len(those) - len(left)
        began = self.clock()
        for parts in (False, True):
            self._fetch([key for key, listed in left.items() if listed.parts is parts], found, parts)
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

    def _fitting(self, key: str, listed: Listed) -> Invocation | None:
        return self.adoption.fitting(self._manifest(key), listed.argv)

    def _is_here(self, key: str, listed: Listed) -> bool:
        known = self._fitting(key, listed)
        return known is not None and self.adoption.is_here(known, listed.cwd)

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
LATELY, PATIENCE, LASTING = 5.0, 1.0, 60.0
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
            known.windows = [window for window in known.windows if self.clock() - window.begun < LASTING]
            for window in known.windows:
                if place in window.places:
                    return window, False
            lately, known.asked = self.clock() - known.asked < LATELY, self.clock()
            if not lately:
                return None, False
            size = min(_FIRST << sum(len(window.places) >= _FIRST for window in known.windows), _MOST_WINDOW)
            behind = (window.places.start for window in known.windows if window.places.start > place)
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
