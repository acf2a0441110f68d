"""Device front ends that serve several GPUs of one compile (`planning.alike`).

One pass of those that may be alike leads: it runs as ever. The others wait for it. Clang writes the text that
each of them would read, and that which the leader has read; where both are the same, the leader's bitcode serves under
another name (`making.retarget`). The pass has read what clang has read for that text. In all other cases the pass runs
as ever.

A pair of GPUs is trusted when the bitcode was compared with that of the pass itself, for each set of options, and one
use in so many is compared again. A difference ends the sharing for that compiler.

A pass that waits holds no slot, but the lock of its key. It waits for a pass that waits for no key. It runs as ever if
a slot stays free: nobody else would use that time; or if it has waited in vain the last time.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from hipcache.errors import JobFailed
from hipcache.execution.attempt import Attempt, Way, attempt, object_of
from hipcache.execution.gpu_groups import GpuGroups, Member, Text
from hipcache.execution.own_texts import OwnTexts
from hipcache.execution.session import Session
from hipcache.execution.source_notes import SourceNotes
from hipcache.inputs.keys import digest_bytes
from hipcache.making import retarget
from hipcache.model import Pass
from hipcache.planning import alike
from hipcache.planning.frontend import FrontEnd
from hipcache.values import replace

USED, CHECKED, DIFFERENT = "shared used", "shared checked", "shared different"
# Why passes that had a leader ran as ever, as it is counted.
WITHOUT = "shared without "
FREE, FAILED, MESSAGES, SHORT = "a slot was free", "fails", "messages", "short"
CHANGED, NAMED, OTHER_TEXT, OTHER_CODE = "changed", "names of GPUs", "another text", "another number"
AS_BEFORE = "in vain the last time"
# These cost something, and are likely to be so the next time.
_LASTING = (NAMED, OTHER_TEXT, OTHER_CODE)
# Seconds of the processor that the leader must have taken: two texts take some 0.16.
_WORTH = 0.25
# Who waits looks so often whether it is to end (seconds).
_PAUSE = 0.05


class SharedFrontEnds:
    """Those of one compile."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._groups = GpuGroups(session)
        self._vain: dict[str, SourceNotes] = {}

    def run(
        self,
        name: str,
        work: Pass,
        way: Callable[[str], Way],
        plainly: Callable[[], Attempt],
        alone: Callable[[], Attempt],
    ) -> Attempt:
        """The arguments are as in `Member`. Raises as `alone`."""
        kind = alike.kind(work.front) if not self._is_off(work.front) else None
        if kind is None:
            return alone()
        mine = Member(name, work, kind, way, plainly, alone)
        try:
            leader = self._groups.leader(mine)
            if leader is not mine:
                return self._follow(mine, leader)
            mine.attempt = alone()
            return mine.attempt
        finally:
            mine.ended.set()

    def _follow(self, mine: Member, leader: Member) -> Attempt:
        vain = self._vain_behind(leader.arch)
        if vain.holds(mine.front) and not self._is_turn():
            self.session.counted[WITHOUT + AS_BEFORE] += 1
            return mine.alone()
        while not leader.ended.wait(_PAUSE):
            self.session.jobs.runner.check()
            if self._groups.is_slot_free():
                made: Attempt | str = FREE
                break
        else:
            made = self._made(mine, leader)
        if made == FAILED:  # a fault of the source ends this pass, too, as soon as the loop knows
            time.sleep(_PAUSE)
            self.session.jobs.runner.check()
        if isinstance(made, str):
            self.session.counted[WITHOUT + made] += 1
            if made in _LASTING:
                vain.note(mine.front, holds=True)
            return mine.alone()
        vain.note(mine.front, holds=False)
        return self._trusted(mine, leader, made)

    def _made(self, mine: Member, leader: Member) -> Attempt | str:
        """The pass as its leader serves it; or why it does not."""
        led = leader.attempt
        if not led or led.done.stderr:
            return MESSAGES if led else FAILED
        if led.why_not:
            return CHANGED
        if led.done.work < _WORTH and not led.preamble:  # with one: the pass that is served may have none of its own
            return SHORT
        with leader.lock:
            if leader.text is None:
                leader.text = self._text_of_leader(leader, led)
        if isinstance(leader.text, str):
            return leader.text
        text = self._text(mine)
        if isinstance(text, str):
            return text
        if text.digest != leader.text.digest:
            return CHANGED if _disagree(text.read, led) else OTHER_TEXT
        content = self._retargeted(mine, leader, led)
        if content is None:
            return OTHER_CODE
        output = mine.way("-shared").output
        output.write_bytes(content)
        return Attempt(output, led.done, text.read.trace, "", led.preamble)

    def _text_of_leader(self, leader: Member, led: Attempt) -> Text | str:
        """Or why it serves nobody."""
        texts = OwnTexts(self.session)  # as they are now: between the pass and the text
        try:
            if texts.may_hide_gpus(leader.front, led.trace.files):
                return NAMED
        except OSError:
            return CHANGED
        text = self._text(leader)
        return CHANGED if isinstance(text, Text) and _read(text.read) != _read(led) else text

    def _text(self, one: Member) -> Text | str:
        """Or why it does not tell what the pass comes to."""
        plain = one.way("-text")
        try:
            read = attempt(self.session, one.name, one.front, replace(plain, argv=alike.as_text(plain.argv)))
        except JobFailed:
            return FAILED
        text = plain.output.read_bytes()
        if read.why_not or read.done.stderr:
            return CHANGED if read.why_not else MESSAGES
        neutral = alike.neutral(text, one.arch)
        return NAMED if alike.may_ask(text) or not neutral else Text(digest_bytes(neutral), read)

    def _retargeted(self, mine: Member, leader: Member, led: Attempt) -> bytes | None:
        """The leader's bitcode as that of the pass; None if it cannot be told where the GPU stands in it."""
        bitcode, old, new = led.output.read_bytes(), leader.arch, mine.arch
        with leader.lock:
            if leader.assembly is None:
                leader.assembly = self._assembly(leader, led.output)
                leader.number = alike.number_in(leader.assembly, leader.kind)
        numbers = None if leader.number is None else (leader.number, alike.number(new))
        made = retarget.for_gpu(bitcode, old, new, numbers)
        if made is None or not leader.assembly or (numbers and not retarget.is_alone(leader.assembly, numbers)):
            return None
        # A row of bits that only looks like the name or the number must not be taken for it.
        output = mine.way("-said").output
        output.write_bytes(made)
        says = self._assembly(mine, output)
        return made if says == retarget.renamed(leader.assembly, old, new, numbers) else None

    def _assembly(self, one: Member, bitcode: Path) -> bytes:
        """What it says; empty if clang cannot tell."""
        output = bitcode.with_suffix(".ll")
        try:
            self.session.jobs.run(one.name, alike.as_assembly(one.front, str(bitcode), str(output)))
        except JobFailed:
            return b""
        return output.read_bytes().partition(b"\n")[2]  # the first line has its path

    def _trusted(self, mine: Member, leader: Member, made: Attempt) -> Attempt:
        """What the leader made for it, if that can be trusted; else what the pass makes itself."""
        session, front = self.session, mine.front
        has_number = leader.number is not None
        key = alike.trust_key(front, leader.kind, mine.kind, made.preamble, has_number).digest
        is_known = bool(session.shelves.near.actions.get([key]))
        if is_known and not self._is_turn():
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

    def _vain_behind(self, arch: str) -> SourceNotes:
        """Which passes have waited for that GPU's in vain."""
        what = f"pass that waited for {arch} in vain"
        return self._vain.setdefault(arch, SourceNotes(self.session, what, of_passes=True))

    def _is_turn(self) -> bool:
        """One in so many is, by chance."""
        return int.from_bytes(os.urandom(4), "little") % self.session.engine.sharing == 0

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


def _disagree(one: Attempt, other: Attempt) -> bool:
    """Has a file changed between the two?"""
    first, second = _read(one), _read(other)
    return any(first[path] != second[path] for path in first.keys() & second.keys())
