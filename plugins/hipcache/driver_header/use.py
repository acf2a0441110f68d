"""A pass over a source with the driver's header precompiled, if there is one to be trusted: else plainly.

It counts only if it ends well, if it says nothing that a plain pass might say otherwise, if a device needs no function
that is not there, and if all that the header was made of is unchanged, before and after.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from hipcache.base.errors import JobFailed, PassThrough, StoreError, StoreFull
from hipcache.base.keys import make_key
from hipcache.base.values import dataclass, replace
from hipcache.build import depfile
from hipcache.build.storage import LocalActions, LocalContents
from hipcache.cache.content import ReadSets, Shelf
from hipcache.clang import bitcode
from hipcache.clang.frontend import FrontEnd, Pass
from hipcache.driver_header import entry, header
from hipcache.driver_header.entry import HeaderRecord, Made
from hipcache.driver_header.trust import Trust, Turn
from hipcache.execution.passes import Attempt, Way, attempt, recorded
from hipcache.execution.session import Session
from hipcache.inputs import observing, preprocessed
from hipcache.inputs.file_manager import Untraceable
from hipcache.inputs.observing import Observed, missing
from hipcache.inputs.preprocessed import Query
from hipcache.store.local import LocalStore

_LABEL = "precompiled header"  # in messages
# Seconds. Those that were not used for so long go when another one is made.
_UNUSED = 24 * 3600
_NO_HEADERS = ("-", "<stdin>", os.devnull)
# For some sources the compiler itself has two outputs, by the addresses of its memory. So many plain passes that come
# out the same show that this is none of them.
_AGAIN = 2
MADE, USED, CHECKED, DIFFERENT = "made", "used", "checked", "different"
# Why passes go without, as it is counted.
WITHOUT = "without "
OPTIONS, OFF, NONE_YET, COMPARING, IN_VAIN = "options", "switched off", "none yet", "comparing", "in vain the last time"
MACROS, DIRECTORIES, FAILED, MESSAGES = "macros", "directories", "fails", "messages"
ARCHITECTURE, UNDEFINED, CHANGED = "architecture", "undefined functions", "changed"
# They are likely to come to the same the next time.
_LASTING = (FAILED, MESSAGES, UNDEFINED)
_OF_PASS = ("-triple", "-fcolor-diagnostics")
_NOTE = b'{"outputs": [], "holds": true}'


@dataclass(frozen=True)
class HeaderNotes:
    """Sources whose passes came to nothing with the precompiled header, so that their next passes do not try in vain. A
    note is about the passes of one side (device or host) over one source, whatever its text is by now. A wrong one
    costs time, never a wrong result. `shelf`: that of the headers, for all stores of results."""

    session: Session
    shelf: Shelf

    def holds(self, front: FrontEnd) -> bool:
        key = self._key(front)
        return self.shelf.actions.get([key]).get(key) == _NOTE

    def note(self, front: FrontEnd, why: str) -> None:
        if why in _LASTING and not self.holds(front):
            self.shelf.put(self._key(front), _NOTE)

    def _key(self, front: FrontEnd) -> str:
        options = (option for option in front.job.options if option.name in _OF_PASS)
        parts = [("source", os.path.join(self.session.command.cwd, front.source))]
        parts += [("option", option.joined) for option in options]
        return make_key("pass in vain with the driver's header", parts).digest


class UnfitHeader(Exception):
    """There cannot be a precompiled header, for a reason in words."""


class DriverHeader:
    """For the passes of one compile. `files`: the store of the headers (`entry.open_files`)."""

    def __init__(self, session: Session, files: LocalStore) -> None:
        self.session, self.files = session, files
        # What cannot be kept of a header is nothing that is wrong with the results: no note is made of it.
        near, own = session.shelves.near, (LocalActions(files), LocalContents(files), lambda text: None)
        self.shelf = Shelf(*own, near.refusal, near.recache)
        self.reads = ReadSets(self.shelf)
        self.trust, self.notes = Trust(session, self.shelf), HeaderNotes(session, self.shelf)
        self._known: dict[tuple[str, ...], Made | None] = {}
        self._first: dict[str, tuple[HeaderRecord, Made | None]] = {}
        self._deprecated: dict[str, bool] = {}
        self._missed_in: dict[tuple[tuple[str, ...], ...], Observed | None] = {}
        self._lock = threading.Lock()
        self._making: dict[str, threading.Lock] = {}
        self._due: dict[str, bool] = {}

    def run(self, name: str, work: Pass, way: Callable[[str], Way], plainly: Callable[[], Attempt]) -> Attempt:
        """`name`: of the pass, in messages; `way`: how it is run, with another stem for its files in the scratch;
        `plainly`: runs it so. Raises as `plainly`."""
        front = work.front
        why = OPTIONS if header.why_not(front, bitcode=work.bitcode) else OFF if self.trust.is_off(front) else ""
        if why:
            return self._plainly(why, plainly)
        key, known, ready, why = self._fitting(front, lambda key: self._found(key, work))
        if not ready or why:
            plain = self._plainly(why, plainly)
            if why == NONE_YET:
                self._missed(key, known, plain)
            return plain
        compared = known.compared[bool(ready.corrections)]
        why = IN_VAIN if self.notes.holds(front) else ""
        turn = Turn.WAIT if why else self.trust.turn(front, is_compared=compared)
        if turn is Turn.WAIT and not why and (self.trust.has_waited(front) or self._has_waited_for_slot()):
            if self.trust.is_off(front):
                return self._plainly(OFF, plainly)
            turn = self.trust.turn(front, is_compared=compared)
        if turn is Turn.WAIT:
            return self._plainly(why or COMPARING, plainly)
        if turn is Turn.COMPARE:
            return self._compared(name, work, key, ready, plainly, lambda: self._attempt(name, work, ready, way))
        found = self._attempt(name, work, ready, way)
        if isinstance(found, Attempt):
            self.session.preambles.append(USED)
            return found
        plain = self._plainly(found, plainly)
        self.notes.note(front, found)
        return plain

    def macros(self, front: FrontEnd, query: Query) -> tuple[Path, Collection[str]] | None:
        """See `FrontEndWay`."""
        if header.why_not(front, bitcode=True) or self.trust.is_off(front):
            return None
        _, _, ready, why = self._fitting(front, self._known_first)
        if not ready or why or not ready.behind or entry.asks_for(ready.words, query.names):
            return None
        if any(name in value for name in ready.left for value in front.macros):
            return None  # a text is checked for poisoned names where it is defined
        identity = self.session.files.identity
        replaced = set(map(identity, query.replaced))
        if replaced and not replaced.isdisjoint(map(identity, ready.read)):
            return None
        if self._missed_by(ready, front) is None:
            return None
        path = self.session.jobs.scratch(f"{ready.pch.name}.macros")
        with self._lock:
            if not path.exists():
                # All of it or nothing, also without room on the disk.
                self.session.jobs.scratch(f"{path.name}.new", ready.behind).rename(path)
        # `#import` does not enter a file again that the header has read.
        return path, ("import", *ready.left)

    def _fitting(
        self, front: FrontEnd, find: Callable[[str], tuple[HeaderRecord, Made | None]]
    ) -> tuple[str, HeaderRecord, Made | None, str]:
        """(the key, what `find` gives for it, the reason why this pass may not use it)"""
        for shared in (True, False):
            key = header.key(front, self.session.command.cwd, shared=shared).digest
            known, ready = find(key)
            why, corrections = self._unfit(front, ready) if ready else (NONE_YET, ())
            if why != ARCHITECTURE:
                break
        return key, known, ready and replace(ready, corrections=corrections), why

    def _known_as(self, key: str) -> tuple[HeaderRecord, Made | None]:
        known = self._entry(key)
        return known, self._ready(known)

    def _known_first(self, key: str) -> tuple[HeaderRecord, Made | None]:
        """As when this compile asked for the first time: questions need no newer record."""
        if key not in self._first:
            self._first[key] = self._known_as(key)
        return self._first[key]

    def _has_waited_for_slot(self) -> bool:
        """Wait until a compiler may run, while others may compare. False if one could at once."""
        session = self.session
        slot = session.context.slots.attempt()
        with slot or session.context.slots.hold(session.jobs.runner.check):
            return slot is None

    def _plainly(self, why: str, plainly: Callable[[], Attempt]) -> Attempt:
        self.session.preambles.append(WITHOUT + why)
        return plainly()

    def _entry(self, key: str) -> HeaderRecord:
        return HeaderRecord.unpack(self.shelf.records([key]).get(key))

    def _ready(self, known: HeaderRecord) -> Made | None:
        """The stored one; None if there is none, it is damaged, or a header is another one by now."""
        with self._lock:
            if known.outputs not in self._known:
                self._known[known.outputs] = self._load(known)
            return self._known[known.outputs]

    def _load(self, known: HeaderRecord) -> Made | None:
        session = self.session
        if len(known.outputs) != 4:
            return None
        pch, packed, digest, words = known.outputs
        since = session.context.clock()
        reads, content = self.reads.get(digest), self.shelf.contents.read(packed)
        if reads is None or content is None or session.files.differs_now(reads):
            return None
        path = session.jobs.scratch(f"{pch}.pch")
        if not (self._lent(pch, path) or self.shelf.contents.copy(pch, path)):
            return None
        try:
            made = Made.unpack(content)
        except ValueError:
            return None
        return replace(made, pch=path, reads=reads, words=self.shelf.contents.read(words) or b"", since=since)

    def _lent(self, pch: str, path: Path) -> bool:
        """Let `path` lead to the store's own file: to copy and check its 8 MB takes 6 ms for each pass. It stays open
        until the compile ends, and the link leads to what is open: no other file can take its place."""
        key = make_key("file of a precompiled header", [("content", pch)]).digest
        known = (self.files.get_action(key, own=True) or b"").decode("ascii", "replace")
        found = self.files.open_blob(pch, known)
        if not found:
            return False
        fd, identity = found
        self.session.jobs.close_at_end(fd)
        path.unlink(missing_ok=True)
        path.symlink_to(f"/proc/{os.getpid()}/fd/{fd}")
        if identity != known:
            with suppress(StoreError):
                self.files.put_action(key, identity.encode(), own=True)
        return path.exists()

    def _unfit(self, front: FrontEnd, ready: Made) -> tuple[str, tuple[str, ...]]:
        """(the reason why the header of this pass may be another one, the corrections with which it is not)"""
        if (macros := header.macros(front)) and entry.asks_for(ready.words, macros):
            return MACROS, ()
        try:
            own = self._macros(front) if front.is_device else b""
        except JobFailed:
            return ARCHITECTURE, ()
        corrections = header.corrections(ready.macros, own)
        names = header.macros(front, all_of_them=True)
        if corrections and any(header.defines(listed, names) for listed in (ready.macros, own)):
            return ARCHITECTURE, ()
        if corrections and entry.asks_for(ready.words, corrections):
            return ARCHITECTURE, ()
        return "", tuple(word for words in corrections.values() for word in words)

    def _macros(self, front: FrontEnd) -> bytes:
        """Those that the compiler defines, as it lists them. Raises JobFailed."""
        session, key = self.session, header.macros_key(front).digest
        if not (found := self.files.get_action(key, own=True) or b""):
            path = session.jobs.scratch(f"{key}.h")
            session.jobs.run(_LABEL, header.listing(front, str(path)))
            found = path.read_bytes()
            if not session.identities.changed():
                with suppress(StoreError):
                    self.files.put_action(key, found, own=True)
        return found

    def _found(self, key: str, work: Pass) -> tuple[HeaderRecord, Made | None]:
        """The stored one, or a new one. The passes of one compile wait for that which makes it."""
        known, ready = self._known_as(key)
        if ready:
            return known, ready
        with self._making.setdefault(key, threading.Lock()):
            known, ready = self._known_as(key)
            return (known, ready) if ready else self._new(key, known, work)

    def _new(self, key: str, known: HeaderRecord, work: Pass) -> tuple[HeaderRecord, Made | None]:
        """A new one, if one was due when this compile began. Other processes go on without meanwhile."""
        if not (self._due.setdefault(key, known.is_due) and known.is_due):
            return known, None
        with self.files.lock(key, wait=False) as mine:
            if mine is None or self._entry(key) != known:
                return known, None
            try:
                with suppress(StoreError):
                    self.files.collect(unused_for=_UNUSED)
                made = self._make(work)
                kept = tuple(self.shelf.keep(content).hash for content in (made.pch.read_bytes(), made.pack()))
                new = HeaderRecord(outputs=(*kept, self.reads.keep(made.reads), self.shelf.keep(made.words).hash))
                self._known[new.outputs] = made
                self.session.preambles.append(MADE)
            except (UnfitHeader, JobFailed, PassThrough, StoreFull, Untraceable, OSError) as error:
                made, new = None, HeaderRecord(why=str(error) or type(error).__name__)
            self.shelf.put(key, new.pack())
            return new, made

    def _missed(self, key: str, before: HeaderRecord, plain: Attempt) -> None:
        """Count a pass that ran plainly, unless another process has made one meanwhile."""
        with self._making[key]:
            known = self._entry(key)
            if known.outputs == before.outputs:
                self.shelf.put(key, known.missed(plain.done.work).pack())

    def _make(self, work: Pass) -> Made:
        session, front = self.session, work.front
        macros = self._macros(front) if front.is_device else b""
        pch, rule = (session.jobs.scratch(f"{work.stem}-made.{end}") for end in ("pch", "d"))
        with session.context.slots.hold(session.jobs.runner.check):
            started = session.context.clock()
            before, contents, expanded, left, behind = self._preprocessed(work)
            text = session.jobs.scratch(f"{work.stem}-made.hip", header.text(front, left, expanded))
            traced = session.jobs.trace(_LABEL, header.making(front, str(pch), str(rule)), stdin=text)
            set_back = session.jobs.was_set_back(started, traced.ended)
        if traced.observed is None or set_back or traced.ended.stderr:
            raise UnfitHeader("it cannot be observed, or has something to say")
        observed = observing.parse(traced.observed, str(session.jobs.workdir))
        read = _headers(rule)
        if read != before or not all(path.startswith("/") and observed.has_read(path) for path in read):
            raise UnfitHeader("a header is relative, or was not seen to be read")
        reads = recorded(session, front, read, None, observed, started)
        names = entry.names_of(observed, filter(session.files.is_directory, header.places(front)))
        if not names:
            raise UnfitHeader("the order of its directories is not known")
        if front.is_device and any(os.path.basename(path) == "__config" for path in read):
            raise UnfitHeader("which errors libc++ puts off is not known")
        if any(map(header.is_lost, contents)):
            raise UnfitHeader("it undefines a builtin macro, or marks one, and a PCH does not")
        if front.is_device and any(map(header.has_poisoned_macro, contents)):
            raise UnfitHeader("one of its macros names what std::string_view has for itself")
        words = entry.pack_words(entry.words_of([*contents, expanded]))
        return Made(read, observed, names, macros, behind, left, pch=pch, reads=reads, words=words, since=started)

    def _preprocessed(self, work: Pass) -> tuple[tuple[str, ...], list[bytes], bytes, tuple[str, ...], bytes]:
        """(its files, their contents, its text with all macros expanded, the macros of which it leaves a definition to
        be taken back, the directives of `header.behind`; these are empty where what stands behind the header may
        depend on more of it)"""
        jobs, front = self.session.jobs, work.front
        path, rule = (jobs.scratch(f"{work.stem}-text.{end}") for end in ("ii", "d"))
        # The header may put a number of a line together with something.
        argv = header.preprocessing(front, str(path), str(rule), numbers=False)
        if not (marked := jobs.attempt(argv).status == 0):
            jobs.run_now(_LABEL, header.preprocessing(front, str(path), str(rule), numbers=True))
        text, read = path.read_bytes(), _headers(rule)
        contents = [header.joined(Path(name).read_bytes()) for name in read]
        left: tuple[str, ...] = ()
        if kept := header.kept(contents):
            source = jobs.scratch(f"{work.stem}-pops.hip", header.pops(kept))
            jobs.run_now(_LABEL, header.popping(front, str(source), str(path)))
            left = tuple(header.left(kept, path.read_bytes()))
        behind = b""
        is_bare = preprocessed.numbered(text) == frozenset() and not preprocessed.names_types(text)
        is_bare = is_bare and not preprocessed.may_expand_pack(text)
        if marked and is_bare and not any(map(header.leaves_more, contents)):
            listed = []
            for is_behind in (False, True):
                jobs.run_now(_LABEL, header.listing(front, str(path), macros=True, behind=is_behind))
                listed.append(path.read_bytes())
            behind = header.behind(*listed)
        return read, contents, text, left, behind

    def _attempt(self, name: str, work: Pass, made: Made, way: Callable[[str], Way]) -> Attempt | str:
        """The pass with the header; or, in words, why its output must not be used."""
        session, front, plain = self.session, work.front, way("-header")
        missed = self._missed_by(made, front)
        if missed is None:
            return DIRECTORIES
        observed = made.observed.joined(missed)
        with_it = replace(
            plain,
            argv=header.using(front, plain.argv, str(made.pch), made.corrections),
            began=made.since,
            more=(made.read, observed),
        )
        try:
            found = attempt(session, name, front, with_it)
        except JobFailed:
            return FAILED  # the plain pass says why
        said = found.done.stderr
        if not header.may_say(front, said) or os.fsencode(session.jobs.workdir) in said:
            return MESSAGES
        # Clang loses errors that it puts off until a function is used: a header's, if it calls one of the other side.
        if front.is_device and bitcode.lacks_functions(found.output.read_bytes()):
            return UNDEFINED
        if found.why_not or found.trace.reads is None:
            return CHANGED
        digests = {file.path: file.digest for file in found.trace.reads.files}
        if not set(made.reads.links) <= set(found.trace.reads.links):
            return CHANGED
        if any(digests.get(file.path) != file.digest for file in made.reads.files):
            return CHANGED
        headers = {file.path for file in made.reads.files}
        others = {path: digest for path, digest in digests.items() if path not in headers}
        mine = [path for path in others if not path.startswith(front.search.system)]
        return MESSAGES if any(self._is_deprecated(path, others[path]) for path in mine) else found

    def _missed_by(self, made: Made, front: FrontEnd) -> Observed | None:
        """What a plain pass looks for in vain for the header (`Made.shadows`); None if it would find something. Found
        out once for all passes with these directories."""
        key = made.names, tuple(header.directories(front))
        if key not in self._missed_in:
            shadows = made.shadows(front, self.session.files)
            self._missed_in[key] = None if shadows is None else Observed(missed=missing(shadows))
        return self._missed_in[key]

    def _is_deprecated(self, path: str, digest: str) -> bool:
        """May the file with that digest name a macro that is?"""
        if digest not in self._deprecated:
            try:
                self._deprecated[digest] = header.is_deprecated(Path(self.session.command.cwd, path).read_bytes())
            except OSError:
                return True
        return self._deprecated[digest]

    def _compared(
        self,
        name: str,
        work: Pass,
        key: str,
        made: Made,
        plainly: Callable[[], Attempt],
        with_header: Callable[[], Attempt | str],
    ) -> Attempt:
        """The plain pass; what it comes to is compared with the other's."""
        same = False
        try:
            plain = plainly()
            with_it = with_header()
            if isinstance(with_it, str):
                self.session.preambles.append(WITHOUT + with_it)
                self.notes.note(work.front, with_it)
                return plain
            if plain.why_not:
                return plain
            content = plain.output.read_bytes()
            why = _difference(plain, with_it, content)
            if why and all(plainly().output.read_bytes() == content for _ in range(_AGAIN)):
                self.session.preambles.append(DIFFERENT)
                self.trust.end(work.front, f"{name}: {why}")
                return plain
            self.session.preambles.append(CHECKED)
            same = not why
            known, other = self._entry(key), bool(made.corrections)
            if same and not known.compared[other] and known.outputs:
                own = (known.compared[0] or not other, known.compared[1] or other)
                self.shelf.put(key, replace(known, compared=own).pack())
            return plain
        finally:
            self.trust.told(work.front, same=same)


def _headers(rule: Path) -> tuple[str, ...]:
    """The files that a dependency file lists."""
    return tuple(path for path in depfile.parse(os.fsdecode(rule.read_bytes())) if path not in _NO_HEADERS)


def _difference(plain: Attempt, with_it: Attempt, content: bytes) -> str:
    if plain.done.stderr != with_it.done.stderr:
        return "other messages"
    if set(plain.trace.files) != set(with_it.trace.files):
        return "other files were read"
    return "" if with_it.output.read_bytes() == content else "another output"
