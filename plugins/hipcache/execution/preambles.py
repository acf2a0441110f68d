"""Precompiled preambles (`planning/preamble`) in use: which one a pass may read, and how one is made and trusted.

One is made when a sixth pass would use it, by one pass at a time (`Preambles.maker`); by the first pass, if several
sources beside its own begin alike: then a build of them all is under way, or an edit of this one will follow. Where a
shorter one serves, a longer one is made when it would have saved the passes with the shorter one as many seconds as the
making takes: then at most twice the least possible is spent (the ski rental problem).

It is kept with all that was looked at while it was made: the trace of a pass that uses it has that too, and the pass
counts only if all of it is as it was, before and after. It is kept only if the pass that it was made for comes to the
same with it as without: the same bytes, or (a device's front end) bitcode that the back end makes the same object of.
One use in so many is compared again. A difference ends the use of preambles for that compiler.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

from hipcache.execution import instances
from hipcache.execution.headers import Headers
from hipcache.execution.instances import InstancesInUse
from hipcache.execution.preamble_making import make
from hipcache.execution.preamble_values import MAKING, REFUSED_FOR, Candidate, Offer, Preamble, Refused
from hipcache.execution.session import Session
from hipcache.execution.source_notes import SourceNotes
from hipcache.inputs.keys import make_key
from hipcache.planning import leading, preamble, standard_headers
from hipcache.planning.frontend import FrontEnd
from hipcache.values import dataclass, field, replace

MADE, USED, CHECKED, DIFFERENT = "made", "used", "checked", "different"
# Why passes go without, as it is counted.
WITHOUT = "without "
OPTIONS, OFF, NO_INCLUDES, NONE_YET, REFUSED = "options", "switched off", "no includes", "none yet", "headers"
FAILED, MESSAGES, CHANGED, TABLES = "fails", "messages", "changed", "virtual functions"
INITIALIZERS, UNDEFINED, INSTANCES = "initializers", "undefined functions", "instances of templates"
# Who waits for one to be made tries so often (seconds), and waits no longer where a compiler could run so many times.
_PAUSE = 0.02
_IDLE = 4
# One is not tried again for so many passes after a file was changing just then, or the pass could not use it.
_DISTURBED = -1
_SHORTEST = 3


@dataclass(frozen=True)
class Preambles:
    """They stay in the local store: a remote's look-up would cost more than most of them gain."""

    session: Session
    instances: InstancesInUse
    initializing: SourceNotes  # of a source whose host's pass initializes more than the headers have
    telling: SourceNotes  # of a pass that says something which it would not say in the same way with one
    computing: SourceNotes  # of a source whose device's passes may hide errors of what they compute
    _off: dict[str, bool] = field(default_factory=dict)
    _siblings: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)

    def offer(self, front: FrontEnd, stem: str, *, bitcode: bool, noted: int = 0) -> Offer:
        """`noted`: how many of the passes that have missed one were this one."""
        session = self.session
        began = session.engine.clock()
        if preamble.why_not(front, bitcode=bitcode):
            return Offer(began, why=OPTIONS)
        if self._is_off(front):
            return Offer(began, why=OFF)
        if self.telling.holds(front):
            return Offer(began, why=MESSAGES)
        turn = int.from_bytes(os.urandom(4), "little") % session.engine.preambles == 0
        if not bitcode and not turn and self.initializing.holds(front):
            return Offer(began, why=INITIALIZERS)
        if bitcode and self.computing.holds(front):
            return Offer(began, why=UNDEFINED)
        candidates = self._candidates(front, bitcode=bitcode, instantiated=bitcode and self.instances.suit(front))
        ready = next((one for one in map(self._ready, candidates, [stem] * len(candidates)) if one), None)
        shorter = ready.candidate if ready else None
        longer = tuple(one for one in candidates if not shorter or one.size > shorter.size)
        # The first is that which most passes have missed: sources begin alike, and differ soon.
        due = [one for one in longer if one.is_due(shorter, noted)]
        wanted = max(due, key=lambda one: (0 if shorter else one.wanted or one.beside, one.size), default=None)
        return Offer(
            began, ready, turn, None if ready and turn else wanted, longer, "" if ready else _why_none(candidates)
        )

    @contextmanager
    def maker(self, wanted: Candidate, *, wait: bool) -> Iterator[bool]:
        """Is the caller to make that one? One pass at a time is, until the context ends. If another one is at it, and
        `wait`, wait until it has ended (then True), or until a compiler could run instead (then False). The caller
        looks again: the preamble may be there. Whoever holds this lock also holds that of its pass's key, so it waits
        for nothing but the lock of `miss`, whose holders wait for nothing."""
        session = self.session
        idle = 0
        while True:
            with session.engine.store.lock(wanted.key, wait=False) as waited:
                if waited is not None:
                    yield True
                    return
            session.jobs.runner.check()
            slot = session.engine.slots.attempt() if wait else None
            if slot:
                with slot:
                    idle += 1
            if not wait or idle > _IDLE:
                yield False
                return
            time.sleep(_PAUSE)

    def wait_for_slot(self) -> bool:
        """Wait until a compiler may run. False if one could at once."""
        session = self.session
        slot = session.engine.slots.attempt()
        with slot or session.engine.slots.hold(session.jobs.runner.check):
            return slot is None

    def miss(self, offer: Offer, seconds: float = 0.0) -> None:
        """A pass goes without those that would serve better. `seconds`: what they could have saved at most, if it used
        a shorter one."""
        if not offer.missed:
            return
        # The shortest is shared by most. Two sources that are compiled at the same time count twice.
        key = make_key("misses of preambles", [("shortest", offer.missed[-1].key)])
        with self.session.engine.store.lock(key.digest):
            records = self.session.shelves.near.records([one.key for one in offer.missed])
            for one in offer.missed:
                now = one.with_record(records.get(one.key))
                if one.outputs or not now.outputs:  # else made meanwhile
                    self._put(replace(now, wanted=now.wanted + 1, spent=now.spent + seconds, outputs=()))

    def _is_off(self, front: FrontEnd) -> bool:
        key = preamble.off_key(front).digest
        if key not in self._off:
            self._off[key] = bool(self.session.shelves.near.actions.get([key]))
        return self._off[key]

    def suffice(self, front: FrontEnd) -> bool:
        """May a preamble with instances come to stand for all headers of this device's pass? With one, the pass takes
        about as long as clang's preprocessor."""
        if preamble.why_not(front, bitcode=True) or self._is_off(front) or not self.instances.suit(front):
            return False
        if self.telling.holds(front) or self.computing.holds(front):
            return False
        text = self._text(front)
        names, _ = self._named(front, leading.of(text).names)
        return bool(names) and not self._includes_others(front, text, names)

    def _text(self, front: FrontEnd) -> bytes:
        """The begin of the source; empty if it cannot be read."""
        try:
            with open(self.session.files.resolve(front.source), "rb") as file:
                return file.read(1 << 16)
        except OSError:
            return b""

    def _candidates(self, front: FrontEnd, *, bitcode: bool, instantiated: bool) -> list[Candidate]:
        """The longest first."""
        text = self._text(front)
        head, is_rare = leading.of(text), bitcode and not instantiated
        names, absent = self._named(front, head.names)
        # Libraries declare functions and operators by names that the headers of a preamble call, too.
        instantiated = instantiated and not self._includes_others(front, text, names)
        whole = len(names)
        numbers = [one for one in range(whole, -1, -1) if one == whole or one <= _SHORTEST]
        found = []
        for number in numbers:
            if number or preamble.WRAPPER in front.included:
                cwd = self.session.command.cwd
                key = preamble.key(front, names[:number], cwd, instantiated=instantiated).digest
                size, sought = head.ends[number - 1] if number else 0, frozenset(absent[:number]) - {""}
                found.append(Candidate(key, names[:number], size, instantiated, is_rare, absent=sought))
        records = self.session.shelves.near.records([one.key for one in found])
        if found and not is_rare and not records and not self.session.engine.recache:
            others = self._beside(front.source)
            return [replace(one, beside=_beginning(others, head.names[: len(one.names)])) for one in found]
        known = [one.with_record(records.get(one.key)) for one in found]
        if instantiated and any(one.is_refused for one in known):
            plain = self._candidates(front, bitcode=bitcode, instantiated=False)
            return [other if one.is_refused else one for one, other in zip(known, plain, strict=True)]
        return known

    def _includes_others(self, front: FrontEnd, text: bytes, names: Iterable[str]) -> bool:
        """Does the source include more than standard headers?"""
        return any(not self._named(front, [name])[0] for name in {*leading.included(text)}.difference(names))

    def _beside(self, source: str) -> list[tuple[str, ...]]:
        """The leading includes of sources in the same directory."""
        path = self.session.files.resolve(source)
        if path not in self._siblings:
            self._siblings[path] = list(leading.beside(path))
        return self._siblings[path]

    def _named(self, front: FrontEnd, includes: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names by which a preamble includes them, and for each what is sought before: as many as there can be."""
        found = [preamble.operand(name, front.source, front.search, self.session.files) for name in includes]
        search, files = front.search, self.session.files
        possible = list(takewhile(lambda one: standard_headers.is_named(one[0], search, files), found))
        return tuple(name for name, _ in possible), tuple(path for _, path in possible)

    def _ready(self, one: Candidate, stem: str) -> Preamble | None:
        """The stored preamble; None if there is none, it is damaged, or a header is another one by now."""
        session = self.session
        if len(one.outputs) != 3 + one.instantiated:
            return None
        pch, seen, digest, *listed = one.outputs
        reads = session.shelves.reads.get(digest)
        if reads is None or session.files.differs(digest, reads, exact=True):
            return None
        packed = session.shelves.shelf.contents.read(seen)
        instances = self.instances.stored(listed[0]) if listed else None
        path = session.jobs.scratch(f"{stem}-{len(one.names)}.pch")
        try:
            headers = Headers.unpack(packed) if packed else None
        except ValueError:
            return None
        if headers is None or (listed and not instances):
            return None
        if not (self._lent(pch, path) or session.shelves.shelf.contents.copy(pch, path)):
            return None
        return Preamble(one, path, replace(headers, reads=reads), instances, one.reordered)

    def _lent(self, pch: str, path: Path) -> bool:
        """Let `path` lead to the store's own file: to copy and check its 10 MB takes 7 ms for each pass. It stays open
        until the compile ends, and the link leads to what is open: no other file can take its place."""
        engine = self.session.engine
        key = make_key("file of a preamble", [("content", pch)]).digest
        known = (engine.store.get_action(key, own=True) or b"").decode("ascii", "replace")
        found = engine.store.open_blob(pch, known)
        if not found:
            return False
        fd, identity = found
        self.session.jobs.close_at_end(fd)
        path.unlink(missing_ok=True)
        path.symlink_to(f"/proc/{os.getpid()}/fd/{fd}")
        if identity != known:
            engine.keep_for_speed(key, identity.encode(), own=True)
        return path.exists()

    def _put(self, one: Candidate) -> None:
        self.session.shelves.near.put(one.key, one.record())

    def make(self, front: FrontEnd, one: Candidate, stem: str, *, bitcode: bool) -> Preamble | None:
        """Precompile it. None if that is not possible, which is remembered."""
        try:
            made = make(self.session, self.instances, front, one, stem, initializes=not bitcode)
        except Refused as why:
            self.refuse(one, str(why), for_now=why.for_now)
            return None
        self.session.counted[MADE] += 1
        return made

    def keep(self, made: Preamble, seconds: float) -> None:
        """It has come to trust. `seconds`: what the pass took that it was made for, without it."""
        shelves, headers = self.session.shelves, made.headers
        assert headers.reads
        kept = (shelves.near.keep(content).hash for content in (made.pch.read_bytes(), headers.pack()))
        outputs = (*kept, shelves.reads.keep(headers.reads))
        if made.instances:
            outputs += (shelves.near.keep(made.instances.pack()).hash,)
        one = replace(made.candidate, wanted=0, spent=0.0, cost=MAKING * seconds, why="")
        self._put(replace(one, outputs=outputs, reordered=made.reordered))

    def refuse(self, one: Candidate, why: str, *, for_now: bool) -> None:
        """`for_now`: a file was changing just then, or the pass is not one to make it by."""
        self._put(replace(one, wanted=_DISTURBED if for_now else -REFUSED_FOR, spent=0.0, outputs=(), why=why))

    def end(self, front: FrontEnd, why: str) -> None:
        """No pass of this compiler is to use one any more."""
        key = preamble.off_key(front).digest
        self._off[key] = True
        self.session.counted[DIFFERENT] += 1
        self.session.notes.append(f"preambles are switched off for this compiler: {why}")
        self.session.shelves.near.put(key, json.dumps({"outputs": [], "why": why}).encode())


def with_notes(session: Session) -> Preambles:
    """For the passes of one compile."""
    initializing = SourceNotes(session, "source that initializes variables")
    telling = SourceNotes(session, "pass whose messages a preamble changes", of_passes=True)
    computing = SourceNotes(session, "source that computes with strings")
    return Preambles(session, instances.of(session), initializing, telling, computing)


def _why_none(candidates: Sequence[Candidate]) -> str:
    """The reason why none is ready, as it is counted."""
    if not candidates:
        return NO_INCLUDES
    refused = [one.why for one in candidates if one.wanted < 0]
    if not refused:
        return NONE_YET
    return refused[0] if refused[0] in (INITIALIZERS, UNDEFINED) else REFUSED


def _beginning(sources: Iterable[tuple[str, ...]], names: tuple[str, ...]) -> int:
    """How many of the sources begin with these includes."""
    return sum(includes[: len(names)] == names for includes in sources)
