"""The storage helper's fetches: from one remote after the other, each within a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet  # no TimeoutError before Python 3.11
from contextlib import suppress
from typing import Any

from hipcache.config import Config, basedir_at
from hipcache.remote import invocation
from hipcache.remote.breaker import MEMORY, Breaker
from hipcache.remote.helper.adoption import Adoption, Searches
from hipcache.remote.helper.commands import Listed, Question
from hipcache.remote.helper.prefetch import Neighbours, Prefetch, ahead_of_build, of_fault, of_whole
from hipcache.remote.helper.remotes import Remote
from hipcache.remote.helper.transfer import Backlog, TransferCounts
from hipcache.remote.invocation import Invocation, Manifest
from hipcache.report import statistics
from hipcache.store import Store
from hipcache.store.local import LocalStore
from hipcache.values import dataclass, field

SILENCE = 0.9  # of an address's timeout; less than the client's
TICK = 0.1
_ANSWER = 1 << 10  # bytes that each answer counts for, besides its content
_MOST_BUILDS, _LONGEST_BUILD = 100, 86400.0

Alive = Callable[[], object]
# Is told of the bytes that came with each answer.
Progress = Callable[[int], object]
Note = Callable[[Sequence[str], str, str], object]


@dataclass
class _Adopting:
    """What all share who take whole compiles into the store: searches in tools, and what is written later."""

    config: Config
    store: Store
    behind: Backlog = field(init=False)
    _searches: Searches = field(default_factory=Searches)

    def __post_init__(self) -> None:
        self.behind = Backlog(self.store)

    def adoption(self, environ: Mapping[str, str], cwd: str) -> Adoption:
        """For a command with these variables."""
        base = basedir_at(self.config, environ, cwd)
        return Adoption(self.store, environ, base, self._searches, self.behind.content)

    def prefetch(
        self,
        adoption: Adoption,
        fetch: Callable[[Sequence[str], bool], tuple[int, str]],
        count: Callable[[Mapping[str, int]], object],
        note: Callable[[Sequence[str], str, str], object],
    ) -> Prefetch:
        return Prefetch(self.store, adoption, fetch, count, note, behind=self.behind)


@dataclass
class Fetches:
    """`fault`: why there are no remotes, and what to do about it; `note` is told of a whole compile that has come: its
    command, the directory, and the remote."""

    config: Config
    store: LocalStore
    remotes: list[Remote]
    fault: list[str] | None = None
    note: Note = lambda argv, cwd, remote: None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _builds: dict[str, Breaker] = field(default_factory=dict)
    _neighbours: Neighbours = field(init=False)
    _adopting: _Adopting = field(init=False)

    def __post_init__(self) -> None:
        self._neighbours = Neighbours(self._window)
        self._adopting = _Adopting(self.config, self.store)

    def end(self) -> None:
        """Nothing is left for later."""
        self._adopting.behind.write()

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
        behind = None if manifests is None else self._adopting.behind
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

        return {
            **ahead_of_build(file, self._prefetch(environ, directory, fetch)),
            "told": told,
        }

    def _prefetch(
        self, environ: Mapping[str, str], cwd: str, fetch: Callable[[Sequence[str], bool], tuple[int, str]]
    ) -> Prefetch:
        adoption = self._adopting.adoption(environ, cwd)
        return self._adopting.prefetch(adoption, fetch, self._count, self.note)

    def _window(self, asked: Question, those: Sequence[Listed], alive: Alive) -> None:
        def fetch(keys: Sequence[str], manifests: bool) -> tuple[int, str]:
            answer = self.fetch(list(keys), alive, self.account(""), ahead=False, manifests=manifests)
            return answer["hits"], answer["from"]

        self._prefetch(asked.environ, asked.cwd, fetch).run(those)

    def whole(self, asked: Question, alive: Alive) -> bool:
        """Is the direct record of that compile, and all that it needs, in the local store now?"""
        adoption = self._adopting.adoption(asked.environ, asked.cwd)

        def choose(manifest: Manifest) -> Invocation | None:
            known = adoption.fitting(manifest, asked.argv)
            return known if known and adoption.is_of(known, asked.argv) else None

        key = adoption.key(asked.argv, asked.cwd)
        known = choose(invocation.unpack(self._adopting.behind.record(key)))
        if known and adoption.adopt(known, asked.cwd):
            return True
        if self.config.prefetch and self._neighbours.come(asked, alive):
            known = choose(invocation.unpack(self._adopting.behind.record(key)))
            if known and (adoption.is_here(known, asked.cwd) or adoption.adopt(known, asked.cwd)):
                return True
        build = self.account("")
        for remote in self.remotes:
            if not remote.address.reads or build.why:
                continue
            began, received = time.monotonic(), remote.received
            chosen: list[Invocation] = []

            def work(progress: Progress, remote: Remote = remote, chosen: list[Invocation] = chosen) -> TransferCounts:
                one, tally = remote.open().fetch_invocation(key, choose, progress)
                chosen += [one] if one else []
                return tally

            was_well = not remote.breaker.why
            if self._from(remote, work, alive, 1, ahead=False) is None and was_well:
                self._count(of_fault(asked.argv))
            build.spent(began, remote.received - received)
            if chosen and adoption.adopt(chosen[0], asked.cwd):
                self._count(of_whole(self._adopting.behind.size, chosen[0], round((time.monotonic() - began) * 1000)))
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
        came = 0

        def progress(size: int) -> None:
            nonlocal last, came
            last, came = time.monotonic(), came + size + _ANSWER

        future = _beside(lambda: work(progress))
        while not future.done():
            with suppress(NotYet):
                future.exception(TICK)
            alive()
            is_silent = time.monotonic() - last > SILENCE * remote.address.timeout
            if not future.done() and (is_silent or remote.breaker.is_too_slow(began, came, ahead=ahead)):
                remote.breaker.open("it does not answer in time" if is_silent else "it is slow")
                self._count({"errors": 1, "misses": wanted})
                return None
        error = future.exception()
        if error is not None:
            remote.failed(error)
            self._count({"errors": 1, "misses": wanted})
            return None
        tally = future.result()
        remote.received += tally.received
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
        statistics.record_remote(self.config.dir, counts, self.config.umask)


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
