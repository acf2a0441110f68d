"""A pass with a precompiled preamble, if there is one to be trusted: else plainly, as if there were none.

It counts only if it does not fail, if its messages are those of a plain pass (`planning.preamble.may_say`), and if all
inputs of the preamble are unchanged, before and after.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack

from hipcache.errors import JobFailed
from hipcache.execution import preamble_alone
from hipcache.execution.attempt import Attempt, Way, attempt, object_of
from hipcache.execution.preamble_values import Candidate, Offer, Preamble
from hipcache.execution.preambles import (
    CHANGED,
    CHECKED,
    FAILED,
    INITIALIZERS,
    INSTANCES,
    MESSAGES,
    OFF,
    OPTIONS,
    TABLES,
    UNDEFINED,
    USED,
    WITHOUT,
    Preambles,
    with_notes,
)
from hipcache.execution.session import Session
from hipcache.making import bitcode, order, startup
from hipcache.model import Pass
from hipcache.planning import preamble
from hipcache.values import dataclass, replace

_LEFT = "the pass that it was made for does not tell whether it can be trusted"


class Different(Exception):
    """The output with the preamble is another one; the text says which."""


@dataclass(frozen=True)
class PreambleUse:
    """`name`: of the pass, in messages; `way`: of the plain pass with another stem for its files in the scratch."""

    preambles: Preambles
    name: str
    work: Pass
    way: Callable[[str], Way]

    def run(self, plainly: Callable[[], Attempt]) -> Attempt:
        with ExitStack() as making:
            offer = self._claimed(making)
            if offer.missed and not offer.ready and not offer.wanted:
                self.preambles.miss(offer)
                if self.preambles.wait_for_slot():
                    # Another source's pass may have missed the same one meanwhile, and may be making it.
                    offer = self._claimed(making, noted=1)
                offer = replace(offer, missed=())
            return self._run(offer, plainly)

    def _claimed(self, making: ExitStack, noted: int = 0) -> Offer:
        """The offer; a preamble is wanted only if this pass is to make it, which no other one does until `making` ends.
        `noted`: how often this pass has missed one itself."""
        offer = self._offer(noted)
        wanted = offer.wanted
        if wanted:
            is_maker = making.enter_context(self.preambles.maker(wanted, wait=not offer.ready))
            if is_maker or not offer.ready:
                offer = self._offer(noted)  # another pass may have made it
            if not is_maker or not offer.wanted or offer.wanted.key != wanted.key:
                making.close()
                offer = replace(offer, wanted=None)
        return offer

    def _offer(self, noted: int) -> Offer:
        return self.preambles.offer(self.work.front, self.work.stem, bitcode=self.work.bitcode, noted=noted)

    def _run(self, offer: Offer, plainly: Callable[[], Attempt]) -> Attempt:
        why = offer.why
        if offer.ready and not offer.is_checked and not offer.wanted:
            found = self._attempt(offer.ready, offer.began)
            if isinstance(found, Attempt):
                if self.preambles.instances.matter(self.work.front, offer.ready, found):
                    self.preambles.instances.unsuited(self.work.front)
                    return self.run(plainly)
                if not (offer.ready.reordered and bitcode.VTABLE in found.output.read_bytes()):
                    self._count(USED)
                    if offer.missed:
                        self.preambles.miss(offer, self._could_save(offer.ready, found))
                    return replace(found, preamble=offer.ready.candidate.key)
                found = TABLES
            why = found
        if why:
            self._count(WITHOUT + why)
        self.preambles.miss(offer)
        plain = plainly()
        if offer.why not in (OPTIONS, OFF):
            says_more = not preamble.may_say(self.work.front, plain.done.stderr)
            self.preambles.telling.note(self.work.front, holds=says_more)
            if self.work.bitcode and (offer.ready or offer.wanted or offer.why == UNDEFINED):
                self.preambles.computing.note(self.work.front, holds=self._may_compute(plain))
        self._follow_up(offer, plain)
        return plain

    def _could_save(self, one: Preamble, found: Attempt) -> float:
        reads = found.trace.reads
        sizes = {file.path: file.status[2] for file in (reads.files if reads else ()) if file.status}
        return one.could_save(
            found.done.seconds,
            [file.path for file in found.trace.files],
            lambda path: sizes[path] if path in sizes else self._size(path),
        )

    def _size(self, path: str) -> int:
        """The size in bytes; 0 if the file has just gone."""
        try:
            return os.path.getsize(self.preambles.session.files.resolve(path))
        except OSError:
            return 0

    def _follow_up(self, offer: Offer, plain: Attempt) -> None:
        """Make what is wanted, or check what is there, by the pass that has just been run plainly."""
        front = self.work.front
        one, is_new = offer.ready, False
        if offer.wanted and not plain.why_not and preamble.may_say(front, plain.done.stderr):
            unfit = self._unfit(plain, plain.output.read_bytes(), offer.wanted)
            if unfit:  # with it, this pass would not count; another source's may
                self.preambles.refuse(offer.wanted, unfit, for_now=True)
                return
            one, is_new = self.preambles.make(front, offer.wanted, self.work.stem, bitcode=self.work.bitcode), True
        if one is None or not (is_new or offer.is_checked):
            return
        try:
            kept = self._compared(one, plain, offer.began)
        except Different as different:
            if is_new and preamble_alone.differs(self.preambles.session, front, one, self.work.stem):
                self.preambles.refuse(
                    one.candidate, "its headers come to something else when they are precompiled", for_now=False
                )
            else:
                self.preambles.end(front, f"{self.name}: {different}")
            return
        if isinstance(kept, str):
            if is_new:
                for_now = kept in (CHANGED, INSTANCES, INITIALIZERS, UNDEFINED)
                self.preambles.refuse(one.candidate, kept if for_now else f"{_LEFT}: {kept}", for_now=for_now)
            return
        self._count(CHECKED)
        if is_new or kept.reordered != one.reordered:
            self.preambles.keep(kept, plain.done.seconds)

    def _attempt(self, one: Preamble, began: float) -> Attempt | str:
        """The attempt; or, in words, why its output must not be used."""
        session = self.preambles.session
        front, plain = self.work.front, self.way("-preamble")
        argv = preamble.using(plain.argv, str(one.pch), one.candidate.size)
        try:
            headers = one.headers.sought(one.candidate.absent)
            made = attempt(session, self.name, front, replace(plain, argv=argv, began=began, headers=headers))
        except JobFailed:
            return FAILED  # the plain pass says why
        said = made.done.stderr
        if not preamble.may_say(front, said) or os.fsencode(session.jobs.workdir) in said:
            return MESSAGES
        output = made.output.read_bytes()
        unfit = UNDEFINED if one.may_hide_error(output) else self._unfit(made, output, one.candidate)
        if unfit:
            return unfit
        reads, then = made.trace.reads, one.headers.reads
        if made.why_not or reads is None or then is None:
            return CHANGED
        digests = {file.path: file.digest for file in reads.files}
        if any(digests.get(file.path) != file.digest for file in then.files) or session.files.differs_now(then):
            return CHANGED
        return made

    def _unfit(self, made: Attempt, output: bytes, one: Candidate) -> str:
        """The reason why no pass like that, with that output, may use that preamble; empty if it may. What is found out
        about the source is noted."""
        # Clang loses errors that it puts off until a function is used: a header's, if it calls one of the other side.
        if self.work.bitcode:
            return UNDEFINED if bitcode.may_need(output) or self._may_compute(made) else ""
        if one.startup is None:
            return ""
        # Those of a precompiled header's variables that only some sources use come in another order (llvm #67992).
        code = startup.code(output)
        initializes = code == startup.NOT_READ or code != one.startup
        self.preambles.initializing.note(self.work.front, holds=initializes)
        return INITIALIZERS if initializes else ""

    def _may_compute(self, made: Attempt) -> bool:
        return self.preambles.instances.own.may_compute(self.work.front, made.trace.files)

    def _compared(self, one: Preamble, plain: Attempt, began: float) -> Preamble | str:
        """The preamble, if it can be trusted by this pass; if that does not tell, why. Raises Different."""
        made = self._attempt(one, began)
        if isinstance(made, str) or plain.why_not:
            return made if isinstance(made, str) else CHANGED
        if plain.done.stderr != made.done.stderr:
            raise Different("other messages")
        if plain.trace.files != made.trace.files:
            raise Different("other files were read")
        with_it, without = made.output.read_bytes(), plain.output.read_bytes()
        matter = self.preambles.instances.matter(self.work.front, one, made)
        if with_it == without:
            if matter:
                self.preambles.instances.unsuited(self.work.front)
            return one
        if not self.work.bitcode:
            raise Different("another object")
        names = order.of_bitcode(without)
        if (
            bitcode.VTABLE in without
            or not preamble.is_optimized(self.work.front)
            or not names
            or names != order.of_bitcode(with_it)
        ):
            return INSTANCES if matter else "its names come in another order"
        session, front = self.preambles.session, self.work.front
        if object_of(session, self.name, front, made) == object_of(session, self.name, front, plain):
            return replace(one, reordered=True)
        if matter:
            return INSTANCES
        raise Different("another object of its bitcode")

    def _count(self, what: str) -> None:
        self.preambles.session.counted[what] += 1


class WithPreambles:
    """Runs the passes of one compile with them."""

    def __init__(self, session: Session) -> None:
        self._preambles = with_notes(session)

    def run(self, name: str, work: Pass, way: Callable[[str], Way], plainly: Callable[[], Attempt]) -> Attempt:
        return PreambleUse(self._preambles, name, work, way).run(plainly)

    def suffice(self, work: Pass) -> bool:
        return self._preambles.suffice(work.front)
