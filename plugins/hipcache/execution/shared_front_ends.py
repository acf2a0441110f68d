"""Device front ends that serve several GPUs of one compile (`planning.alike`).

One pass of those that may be alike leads: it runs as ever. The others wait for it. Clang writes the text that
each of them would read, and that which the leader has read; where both are the same, the leader's bitcode serves under
another name (`making.retarget`). The pass has read what clang has read for that text. In all other cases the pass runs
as ever.

A pair of GPUs is trusted when the bitcode was compared with that of the pass itself, for each set of options, and one
use in so many is compared again. A difference ends the sharing for that compiler.

A pass that waits holds no slot, but the lock of its key. It waits for a pass that waits for no key. It runs as ever if
a slot stays free: nobody else would use that time.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from hipcache.errors import JobFailed
from hipcache.execution import gpu_features
from hipcache.execution.attempt import Attempt, Way, attempt, object_of
from hipcache.execution.session import Session
from hipcache.inputs.keys import digest_bytes
from hipcache.making import retarget
from hipcache.model import Pass
from hipcache.planning import alike
from hipcache.planning.alike import Kind
from hipcache.planning.frontend import FrontEnd
from hipcache.values import dataclass, field, replace

USED, CHECKED, DIFFERENT = "shared used", "shared checked", "shared different"
# Why passes that had a leader ran as ever, as it is counted.
WITHOUT = "shared without "
FREE, FAILED, MESSAGES, SHORT = "a slot was free", "fails", "messages", "short"
CHANGED, OTHER_TEXT, OTHER_CODE = "changed", "another text", "another number"
# Seconds of the processor that the leader must have taken: two texts take some 0.16.
_WORTH = 0.25
# Who waits looks so often whether it is to end (seconds); and one of all that wait, whether there is a free slot. Other
# passes need one soon if it was not free so many times in a row: their engines prepare them.
_PAUSE = 0.05
_IDLE = 5
# Passes that begin within so many seconds choose a leader together.
_GATHERING = 0.02


@dataclass(frozen=True)
class _Text:
    """The text that a pass reads. `digest`: of the text; `read`: the run that wrote it."""

    digest: str
    read: Attempt


@dataclass
class _Member:
    """A pass that may serve others, or be served. `name`: of the pass, in messages; `way`: how it is run, with another
    stem for its files in the scratch; `plainly`: runs it so; `alone`: runs it as if there were no other, maybe with a
    preamble. `leads`: is it to serve others? `ended`: it has come to something, which is `attempt` if it went well.
    `is_plain`, `text`, `assembly`: of one that leads, are its files such as can be shared, what it has read, and what
    its bitcode says (empty if clang cannot tell). None where it is not known yet."""

    name: str
    work: Pass
    kind: Kind
    way: Callable[[str], Way]
    plainly: Callable[[], Attempt]
    alone: Callable[[], Attempt]
    leads: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    attempt: Attempt | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_plain: bool | None = None
    text: _Text | None = None
    assembly: bytes | None = None

    @property
    def front(self) -> FrontEnd:
        return self.work.front

    @property
    def arch(self) -> str:
        return self.kind.arch


class SharedFrontEnds:
    """Those of one compile."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._lock = threading.Lock()
        self._groups: dict[str, list[_Member]] = {}
        self._features = gpu_features.GpuFeatures(session)
        self._looked, self._idle = 0.0, 0

    def run(
        self,
        name: str,
        work: Pass,
        way: Callable[[str], Way],
        plainly: Callable[[], Attempt],
        alone: Callable[[], Attempt],
    ) -> Attempt:
        """The arguments are as in `_Member`. Raises as `alone`."""
        kind = alike.kind(work.front) if not self._is_off(work.front) else None
        if kind is None:
            return alone()
        mine = _Member(name, work, kind, way, plainly, alone)
        try:
            leader = self._leader(mine)
            if leader is not mine:
                return self._follow(mine, leader)
            mine.attempt = alone()
            return mine.attempt
        finally:
            mine.ended.set()

    def _leader(self, mine: _Member) -> _Member:
        """That which the pass is to wait for; or itself, as one for others. They begin at about the same time. The
        first by name leads: the next time it is the same one, which has its preamble, and whose pairs are known."""
        with self._lock:
            group = self._groups.setdefault(mine.kind.key.digest, [])
            group.append(mine)
        time.sleep(_GATHERING)
        with self._lock:
            first = min(group, key=lambda one: one.arch)
            if first is mine and not any(one.leads for one in group):
                mine.leads = True  # whoever is like it
                return mine
        for one in (mine, *group):
            self._features.of(one.front, one.arch)  # before the lock: this may run a compiler
        with self._lock:
            same = [one for one in group if one is mine or self._have_same_features(one, mine)]
            leader = next((one for one in same if one.leads), None) or min(same, key=lambda one: one.arch)
            leader.leads = True
            return leader

    def _have_same_features(self, one: _Member, other: _Member) -> bool:
        known = self._features.known(one.front, one.arch)
        return bool(known) and known == self._features.known(other.front, other.arch)

    def _follow(self, mine: _Member, leader: _Member) -> Attempt:
        while not leader.ended.wait(_PAUSE):
            self.session.jobs.runner.check()
            if self._is_slot_free():
                made: Attempt | str = FREE
                break
        else:
            made = self._made(mine, leader)
        if made == FAILED:  # a fault of the source ends this pass, too, as soon as the loop knows
            time.sleep(_PAUSE)
            self.session.jobs.runner.check()
        if isinstance(made, str):
            self.session.counted[WITHOUT + made] += 1
            return mine.alone()
        return self._trusted(mine, leader, made)

    def _is_slot_free(self) -> bool:
        """Has one been free for a while? Only one of those that ask is told so."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked < _PAUSE:
                return False
            self._looked = now
            slot = self.session.engine.slots.attempt()
            with slot or nullcontext():
                self._idle = self._idle + 1 if slot else 0
            if self._idle < _IDLE:
                return False
            self._idle = 0
            return True

    def _made(self, mine: _Member, leader: _Member) -> Attempt | str:
        """The pass as its leader serves it; or why it does not."""
        led = leader.attempt
        if not led or led.done.stderr:
            return MESSAGES if led else FAILED
        if led.why_not:
            return CHANGED
        if led.done.work < _WORTH and not led.preamble:  # with one: the pass that is served may have none of its own
            return SHORT
        with leader.lock:
            if leader.is_plain is None:
                leader.is_plain = all(map(self._is_plain, _read(led)))
                leader.text = self._text(leader) if leader.is_plain else None
        if not leader.is_plain:
            return OTHER_TEXT
        if not leader.text or _read(leader.text.read) != _read(led):
            return CHANGED
        text = self._text(mine)
        if not text or text.digest != leader.text.digest:
            return OTHER_TEXT if text else CHANGED
        content = self._retargeted(mine, leader, led)
        if content is None:
            return OTHER_CODE
        output = mine.way("-shared").output
        output.write_bytes(content)
        return Attempt(output, led.done, text.read.trace, "", led.preamble)

    def _is_plain(self, path: str) -> bool:
        try:
            return alike.is_plain(Path(self.session.files.resolve(path)).read_bytes())
        except OSError:
            return False

    def _text(self, one: _Member) -> _Text | None:
        """None if it cannot be had, or may be another one the next time."""
        plain = one.way("-text")
        try:
            read = attempt(self.session, one.name, one.front, replace(plain, argv=alike.as_text(plain.argv)))
        except JobFailed:
            return None
        text = plain.output.read_bytes()
        if read.why_not or read.done.stderr or alike.may_ask(text):
            return None
        text = alike.neutral(text, one.arch)
        return _Text(digest_bytes(text), read) if text else None

    def _retargeted(self, mine: _Member, leader: _Member, led: Attempt) -> bytes | None:
        """The leader's bitcode as that of the pass; None if it cannot be told where the GPU stands in it."""
        bitcode, old, new = led.output.read_bytes(), leader.arch, mine.arch
        numbers = (alike.number(old), alike.number(new)) if alike.has_number(bitcode, mine.kind) else None
        made = retarget.for_gpu(bitcode, old, new, numbers)
        with leader.lock:
            if leader.assembly is None:
                leader.assembly = self._assembly(leader, led.output)
        if made is None or not leader.assembly or (numbers and not retarget.is_alone(leader.assembly, numbers)):
            return None
        # A row of bits that only looks like the name or the number must not be taken for it.
        output = mine.way("-said").output
        output.write_bytes(made)
        says = self._assembly(mine, output)
        return made if says == retarget.renamed(leader.assembly, old, new, numbers) else None

    def _assembly(self, one: _Member, bitcode: Path) -> bytes:
        """What it says; empty if clang cannot tell."""
        output = bitcode.with_suffix(".ll")
        try:
            self.session.jobs.run(one.name, alike.as_assembly(one.front, str(bitcode), str(output)))
        except JobFailed:
            return b""
        return output.read_bytes().partition(b"\n")[2]  # the first line has its path

    def _trusted(self, mine: _Member, leader: _Member, made: Attempt) -> Attempt:
        """What the leader made for it, if that can be trusted; else what the pass makes itself."""
        session, front = self.session, mine.front
        has_number = alike.has_number(made.output.read_bytes(), mine.kind)
        key = alike.trust_key(front, leader.kind, mine.kind, made.preamble, has_number).digest
        is_known = bool(session.shelves.near.actions.get([key]))
        turn = int.from_bytes(os.urandom(4), "little") % session.engine.sharing == 0
        if is_known and not turn:
            session.counted[USED] += 1
            return made
        plain = mine.plainly()
        if plain.why_not or _read(plain) != _read(made):
            session.counted[WITHOUT + CHANGED] += 1
            return plain
        is_same = plain.output.read_bytes() == made.output.read_bytes()
        why = "other messages" if plain.done.stderr else ""
        if not is_same and not why:
            # With a preamble it may have another order; and it notes places of inline assembly.
            objects = [object_of(session, mine.name, front, one) for one in (made, plain)]
            why = "" if objects[0] == objects[1] else "other bitcode"
        if why:
            self._end(front, f"{mine.name}: {why} than that of {leader.arch}")
            return plain
        session.counted[CHECKED] += 1
        if not is_known and (is_same or made.preamble):
            session.shelves.near.put(key, b'{"outputs": []}')
        return plain

    def _is_off(self, front: FrontEnd) -> bool:
        return bool(self.session.shelves.near.actions.get([alike.off_key(front).digest]))

    def _end(self, front: FrontEnd, why: str) -> None:
        session = self.session
        session.counted[DIFFERENT] += 1
        session.notes.append(f"shared front ends are switched off for this compiler: {why}")
        session.shelves.near.put(alike.off_key(front).digest, json.dumps({"outputs": [], "why": why}).encode())


def _read(one: Attempt) -> dict[str, str]:
    """The files that it has read, with their digests."""
    reads = one.trace.reads
    return {file.path: file.digest for file in reads.files} if reads else {}
