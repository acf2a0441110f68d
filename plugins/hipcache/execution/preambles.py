"""Precompiled preambles (`planning/preamble`) in use: which one a pass may read, and how one is made and trusted.

One is made when a second pass would use it. It is kept with all that was looked at while it was made: the trace of a
pass that uses it has that too, and the pass counts only if all of it is as it was, before and after. It is kept only if
the pass that it was made for comes to the same with it as without: the same bytes, or (a device's front end) bitcode
that the back end makes the same object of. One use in so many is compared again. A difference ends the use of preambles
for that compiler.

A record is JSON {"wanted": n, "outputs": [hash of the PCH file, of what was seen, of the read set], "reordered": bool,
"why": text}; without outputs it only counts. `seen` is zlib-compressed JSON: the lists of `Observed`, and "read".
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from hipcache.errors import JobFailed
from hipcache.execution.read_files import Headers, recorded
from hipcache.execution.session import Session
from hipcache.inputs import observing
from hipcache.inputs.observing import Observed
from hipcache.inputs.trace import Untraceable
from hipcache.making import depfile
from hipcache.planning import preamble
from hipcache.planning.frontend import FrontEnd
from hipcache.values import dataclass, field, replace

MADE, USED, CHECKED, DIFFERENT = "made", "used", "checked", "different"
# Why passes go without, as it is counted.
WITHOUT = "without "
OPTIONS, OFF, NO_INCLUDES, NONE_YET, REFUSED = "options", "switched off", "no includes", "none yet", "headers"
FAILED, MESSAGES, CHANGED, TABLES = "fails", "messages", "changed", "virtual functions"
# Uses that a preamble must have missed: where there is none for the source, and where there is a shorter one.
_FIRST, _LONGER = 1, 4
# After one could not be made it is not tried again for so many.
_REFUSED = -64
# Nor for so many after a file was changing just then.
_DISTURBED = -1
_SHORTEST = 3


@dataclass(frozen=True)
class Candidate:
    """A preamble that would do for a source: the first `size` bytes of it, which are the includes `names`. `absent`:
    the paths at which the source's own text has some of them sought in vain; `why`: it could not be made."""

    key: str
    names: tuple[str, ...]
    size: int
    absent: frozenset[str] = frozenset()
    wanted: int = 0
    outputs: tuple[str, ...] = ()
    reordered: bool = False
    why: str = ""


@dataclass(frozen=True)
class Preamble:
    """One that is there. `pch`: the file; `headers`: what it was made of. `reordered`: is bitcode that is made with it
    another one, of which the back end makes the same?"""

    candidate: Candidate
    pch: Path
    headers: Headers
    reordered: bool = False


@dataclass(frozen=True)
class Offer:
    """What there is for a pass. `began`: when the source was read for it (seconds of the epoch); `ready`: may be used;
    `is_checked`: is it this one's turn to be compared?; `wanted`: is to be made; `why`: there is none ready."""

    began: float
    ready: Preamble | None = None
    is_checked: bool = False
    wanted: Candidate | None = None
    why: str = ""


class Refused(Exception):
    """There cannot be such a preamble, for a reason in words."""


@dataclass(frozen=True)
class Preambles:
    """They stay in the local store: a remote's look-up would cost more than most of them gain."""

    session: Session
    _off: dict[str, bool] = field(default_factory=dict)

    def offer(self, front: FrontEnd, stem: str, *, bitcode: bool) -> Offer:
        session = self.session
        began = session.engine.clock()
        if preamble.why_not(front, bitcode=bitcode):
            return Offer(began, why=OPTIONS)
        if self._is_off(front):
            return Offer(began, why=OFF)
        candidates = self._candidates(front)
        ready = next((one for one in map(self._ready, candidates, [stem] * len(candidates)) if one), None)
        longer = [one for one in candidates if not ready or one.size > ready.candidate.size]
        least = _LONGER if ready else _FIRST
        wanted = next((one for one in longer if one.wanted >= least), None)
        for one in longer:
            if one != wanted and one.wanted <= _LONGER:
                self._put(one, one.wanted + 1, one.why)
        turn = int.from_bytes(os.urandom(4), "little") % session.engine.preambles == 0
        refused = any(one.wanted < 0 for one in candidates)
        why = "" if ready else REFUSED if refused else NONE_YET if candidates else NO_INCLUDES
        return Offer(began, ready, turn, None if ready and turn else wanted, why)

    def _is_off(self, front: FrontEnd) -> bool:
        key = preamble.off_key(front).digest
        if key not in self._off:
            self._off[key] = bool(self.session.shelves.near.actions.get([key]))
        return self._off[key]

    def _candidates(self, front: FrontEnd) -> list[Candidate]:
        """The longest first."""
        try:
            with open(self.session.files.resolve(front.source), "rb") as file:
                leading = preamble.leading(file.read(1 << 16))
        except OSError:
            return []
        names, absent = self._named(front, leading.names)
        whole = len(names)
        numbers = [one for one in range(whole, -1, -1) if one == whole or one <= _SHORTEST]
        found = []
        for number in numbers:
            if number or preamble.WRAPPER in front.included:
                key = preamble.key(front, names[:number], self.session.command.cwd).digest
                size, sought = leading.ends[number - 1] if number else 0, frozenset(absent[:number]) - {""}
                found.append(Candidate(key, names[:number], size, sought))
        records = self.session.shelves.near.records([one.key for one in found])
        return [_with_record(one, records.get(one.key)) for one in found]

    def _named(self, front: FrontEnd, leading: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names by which a preamble includes them, and for each what is sought before: as many as there can be."""
        found = [preamble.operand(name, front.source, front.search, self.session.files) for name in leading]
        possible = list(takewhile(lambda one: one[0], found))
        return tuple(name for name, _ in possible), tuple(path for _, path in possible)

    def _ready(self, one: Candidate, stem: str) -> Preamble | None:
        """None where there is none, it is damaged, or a header is another one by now."""
        session = self.session
        if len(one.outputs) != 3:
            return None
        pch, seen, digest = one.outputs
        reads = session.shelves.reads.get(digest)
        if reads is None or session.files.differs(digest, reads, exact=True):
            return None
        packed = session.shelves.shelf.contents.read(seen)
        path = session.jobs.scratch(f"{stem}-{len(one.names)}.pch")
        try:
            headers = Headers.unpack(packed) if packed else None
        except ValueError:
            return None
        if headers is None or not session.shelves.shelf.contents.copy(pch, path):
            return None
        return Preamble(one, path, replace(headers, reads=reads), one.reordered)

    def _put(self, one: Candidate, wanted: int, why: str = "") -> None:
        record = {"wanted": wanted, "outputs": list(one.outputs), "reordered": one.reordered, "why": why}
        self.session.shelves.near.put(one.key, json.dumps(record, separators=(",", ":")).encode())

    def make(self, front: FrontEnd, one: Candidate, stem: str, *, bitcode: bool) -> Preamble | None:
        """Precompile it; None, and remembered as such, where that cannot be done."""
        try:
            made = self._made(front, one, stem, initializes=not bitcode)
        except (Refused, JobFailed, Untraceable) as why:
            disturbed = isinstance(why, Untraceable)
            self._put(replace(one, outputs=()), _DISTURBED if disturbed else _REFUSED, str(why))
            return None
        self.session.counted[MADE] += 1
        return made

    def _made(self, front: FrontEnd, one: Candidate, stem: str, *, initializes: bool) -> Preamble:
        session = self.session
        pch, rule = (session.jobs.scratch(f"{stem}-made.{end}") for end in ("pch", "pch.d"))
        text = session.jobs.scratch(f"{stem}-made.hip", preamble.text_of(one.names))
        with session.engine.slots.hold(session.jobs.runner.check):
            started = session.engine.clock()
            traced = session.jobs.trace("precompiled preamble", preamble.making(front, str(pch), str(rule)), stdin=text)
            set_back = session.jobs.was_set_back(started, traced.ended)
        if traced.looked is None or set_back or traced.ended.stderr:
            raise Refused("it cannot be observed, or has something to say")
        observed = observing.parse(traced.looked, str(session.jobs.workdir))
        listed = depfile.parse(os.fsdecode(rule.read_bytes()))
        read = tuple(path for path in listed if path not in ("-", preamble.STANDARD_INPUT))
        self._check_headers(front, read, observed)
        reads = recorded(session, front, read, None, observed, started)
        if initializes:
            self._check_initializers(front, pch, stem)
        return Preamble(one, pch, Headers(read, observed, reads))

    def _check_headers(self, front: FrontEnd, read: Sequence[str], observed: Observed) -> None:
        files = self.session.files
        for path in read:
            if not path.startswith("/") or not observed.has_read(path) or files.resolve(front.source) == path:
                raise Refused(f"'{path}' is relative, the source itself, or was not seen to be read")
            try:
                content = Path(path).read_bytes()
            except OSError as error:
                raise Refused(f"'{path}': {error.strerror}") from error
            fault = preamble.fault(content, system=path.startswith(front.search.system))
            if fault:
                raise Refused(f"'{path}': {fault}")

    def _check_initializers(self, front: FrontEnd, pch: Path, stem: str) -> None:
        """Initializers of headers come in another order (llvm/llvm-project#67992): there must be none."""
        jobs = self.session.jobs
        empty, output = jobs.scratch(f"{stem}-empty.hip", b""), jobs.scratch(f"{stem}-empty.bc")
        jobs.run("precompiled preamble", preamble.alone(front, str(pch), str(empty), str(output)))
        if b"llvm.global_ctors" in output.read_bytes():
            raise Refused("it has objects that are initialized at the start")

    def keep(self, made: Preamble) -> None:
        """It has come to trust."""
        shelves, headers = self.session.shelves, made.headers
        assert headers.reads
        kept = (shelves.near.keep(content).hash for content in (made.pch.read_bytes(), headers.pack()))
        outputs = (*kept, shelves.reads.keep(headers.reads))
        self._put(replace(made.candidate, outputs=outputs, reordered=made.reordered), 0)

    def refuse(self, one: Preamble, why: str) -> None:
        self._put(replace(one.candidate, outputs=()), _REFUSED, why)

    def end(self, front: FrontEnd, why: str) -> None:
        """No pass of this compiler is to use one any more."""
        key = preamble.off_key(front).digest
        self._off[key] = True
        self.session.counted[DIFFERENT] += 1
        self.session.notes.append(f"preambles are switched off for this compiler: {why}")
        self.session.shelves.near.put(key, json.dumps({"outputs": [], "why": why}).encode())


def _with_record(one: Candidate, record: bytes | None) -> Candidate:
    try:
        found = json.loads(record) if record else {}
        outputs = tuple(map(str, found.get("outputs", [])))
        # One that no longer holds has been of use.
        return replace(
            one,
            wanted=_FIRST if outputs else int(found.get("wanted", 0)),
            outputs=outputs,
            reordered=bool(found.get("reordered")),
            why=str(found.get("why", "")),
        )
    except (ValueError, TypeError, AttributeError):
        return one
