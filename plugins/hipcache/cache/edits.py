"""Results of passes after an edit that changes nothing of what the compiler sees: comments, lines without text that
came or went, macros with other values that nobody uses.

Where no entry holds, and before the pass runs, the newest entries are compared with the files as they are by outlines
(`inputs/outline`). Whether the numbers of lines or the values of macros get into what the pass makes, the compiler's
own preprocessor tells (`inputs/preprocessed`). It is asked once about lines: the answer is kept with the entry. An edit
of comments that moves no line needs no answer, and one of code, which has another outline, gets none.

Beside the entry under its own key, what a pass made, and what is taken over after an edit, is kept under a key without
the values of macros and the CUID (`FrontEnd.loose`): the CUID counts these, and where the object goes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from itertools import islice

from hipcache.base import times
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass, field, replace
from hipcache.build import Bound
from hipcache.cache import entries
from hipcache.cache.content import ReadSets, Shelf
from hipcache.cache.entries import Entry
from hipcache.cache.spelling import Spelled, for_cuid, has_cuid
from hipcache.clang.cuid import clangs_hash
from hipcache.clang.frontend import FrontEnd, loose_key, pass_of
from hipcache.clang.host_object import renamed
from hipcache.inputs import includes, messages, outline, preprocessed, search
from hipcache.inputs.file_manager import FileManager, Untraceable
from hipcache.inputs.observing import plain
from hipcache.inputs.outline import Edit
from hipcache.inputs.preprocessed import EVERYWHERE, LINE, Query
from hipcache.inputs.readset import MessageLine, ReadFile, ReadSet
from hipcache.inputs.scans import Scan

# States of the files to compare with: of a branch or two, and before the edit.
_MOST_COMPARED = 3
# An entry, the edit since it was made, the macros of options that have other values, and the names in those.
_Candidate = tuple[Entry, Edit, frozenset[str], frozenset[str]]
#: As `execution.passes.preprocess` of a session.
Preprocess = Callable[[FrontEnd, Query], bytes | None]
# They make the parser read more pragmas, or have one in the middle of a line (`__pragma`).
_OF_PRAGMAS = ("-fopenmp", "-fopenacc", "-fms-", "-fdeclspec", "-fborland", "-fzvector", "-maltivec", "-faltivec")
# Where a text has no such word, one pass is asked for all: only time is lost if that was wrong.
_BY_PASS = pattern(rb"__(?:gfx|GFX|amdgcn|AMDGCN|HIP_DEVICE|CUDA_ARCH)")


@dataclass(frozen=True)
class Edits:
    """`preprocess`: None if nobody is to be asked; `clock`: the wall clock in seconds; `_known`: edits, by the read set
    that they changed; `_candidates`: by key; `_refused`: macros, moved and marked files of edits that change what a
    pass makes."""

    shelf: Shelf
    reads: ReadSets
    files: FileManager
    spelled: Spelled
    preprocess: Preprocess | None = None
    clock: Callable[[], float] = float
    _known: dict[str, Edit | None] = field(default_factory=dict)
    _candidates: dict[str, list[_Candidate]] = field(default_factory=dict)
    _refused: set[tuple[frozenset[str], frozenset[str], frozenset[str]]] = field(default_factory=set)

    def adopt(self, bound: Bound) -> Entry | None:
        """Keep an entry of another state under the key of this one, if the pass would make the same."""
        front = pass_of(bound).front
        if not bound.is_cached or front.comments_matter:
            return None
        key = bound.key.digest
        try:
            if key not in self._candidates:  # the look-up tries them without asking, before
                found = filter(None, (self._candidate(front, *other) for other in self._others(bound)))
                # The state before an edit that was taken back comes first.
                self._candidates[key] = sorted(found, key=lambda candidate: len(candidate[1].files))
        except (OSError, Untraceable):
            return None  # a file is gone, or another one by now
        for candidate in self._candidates[key]:
            try:
                adopted = self._adopt(bound, *candidate)
            except (OSError, Untraceable):
                return None  # a file is gone, or another one by now
            if adopted or self.preprocess:
                return adopted
        return None

    def _others(self, bound: Bound) -> Iterator[tuple[Entry, ReadSet, str]]:
        """Entries of other states of the files, with their read sets, and names of these."""
        front = pass_of(bound).front
        keys = list(filter(None, (bound.key.digest, loose_key(bound))))
        records = self.shelf.records(keys)
        for key in keys:
            alike = (entry for entry in entries.unpack(records.get(key)) if self._may_be_alike(front, entry))
            for entry in islice(alike, _MOST_COMPARED):
                reads = self.reads.get(entry.reads)
                if reads:
                    yield entry, reads, entry.reads
        if pass_of(bound).shared:
            for entry, reads, key in self.spelled.translated(bound):
                if self._may_be_alike(front, entry):
                    yield entry, reads, key

    def _edited(self, edit: Edit) -> Iterator[bytes]:
        return (_content(self.files, file) for file in edit.reads.files if file.path in edit.files)

    def _misleads(self, front: FrontEnd, edit: Edit) -> bool:
        """Would clang's overlay take two files or directories for one, or one for two? It knows them by their paths,
        and leaves out `..`; the directories above the files that it replaces are its own."""
        local, resolve = self.files.basedir.local, self.files.resolve
        directories = {resolve(path) for path in (*front.search.quote, *front.search.angled)}
        named = {os.path.normpath(path) for path in directories}
        replaced = [os.path.normpath(resolve(local(path))) for path in edit.marked]
        above = {place for place in named if any(path.startswith(place + "/") for path in replaced)}
        identities = [search.identity(place) for place in named]
        if any(identities.count(search.identity(place)) > 1 for place in above):
            return True
        crooked = {
            path for path in {resolve(local(file.path)) for file in edit.reads.files} | directories if "/.." in path
        }
        straight = {path: os.path.normpath(path) for path in crooked}
        there = [pair for pair in straight.items() if any(map(os.path.exists, pair))]
        return any(search.identity(path) != search.identity(normal) for path, normal in there)

    def _may_be_alike(self, front: FrontEnd, entry: Entry) -> bool:
        """Not where the source has another outline. (Its read set need not be unpacked then.)"""
        digest, code = entry.source
        try:
            now = self.files.digest(front.source)[1]
            return now == digest or not code or outline.digests(self.files, front.source, now)[1] == code
        except (OSError, Untraceable):
            return False

    def _candidate(self, front: FrontEnd, entry: Entry, reads: ReadSet, key: str) -> _Candidate | None:
        """None if more has changed."""
        if entry.base not in ("", self.files.basedir.name):
            return None
        if entry.text and entry.message_format != front.message_format:
            return None
        passing = for_cuid(entry.passing, front.cuid)
        revalued = front.revalued(entry.macros) if entry.macros else (frozenset[str](), frozenset[str]())
        if passing is None or revalued is None:
            return None
        macros, names = revalued
        if macros and "<command line>" in entry.text:
            return None  # it may quote a value
        if key not in self._known:
            self._known[key] = outline.edit(self.files, reads)
        edit = self._known[key]
        if edit is None or (edit.files and entry.text and entry.places is None):
            return None
        if edit.reads.files[0].path in edit.marked or (edit.marked and self._misleads(front, edit)):
            return None
        if not front.separates_digits and any(outline.separates_digits(text) for text in self._edited(edit)):
            return None
        if (edit.lines or macros) and front.numbers_lines:
            return None
        return replace(entry, passing=passing, message_format=front.message_format), edit, macros, names

    def _adopt(
        self, bound: Bound, entry: Entry, edit: Edit, macros: frozenset[str], names: frozenset[str]
    ) -> Entry | None:
        front = pass_of(bound).front
        is_new = bool(edit.files)  # the state of the files, or an answer
        asked = macros.difference(entry.unused)
        asks_lines = bool(edit.lines) and entry.lines is None
        if asks_lines or asked or edit.marked:
            question = asked, edit.lines if asks_lines else frozenset[str](), frozenset(edit.marked)
            if self.preprocess is None or question in self._refused:
                return None
            began = times.change_limit(self.clock())
            told = self._asked(front, entry, edit, asked, names)
            if told is None or _shows(told, edit.lines):
                if not self._differs_by_pass(edit):
                    self._refused.add(question)
                return None
            if self._is_young(edit, began) or self.files.differs_now(edit.reads):
                return None
            entry, is_new = told, True
        if _shows(entry, edit.lines):
            return None
        outputs = self._outputs(entry, front, edit.reads)
        text = self._renumbered(front, entry, edit)
        if outputs is None or text is None:
            return None
        adopted = replace(
            with_reads(self.reads, entry, edit.reads),
            outputs=outputs,
            text=text,
            places=places(self.files, front, text, edit.reads),
            macros=(),
            cuid="",
        )
        entries.put(self.shelf, bound.key.digest, adopted)
        if is_new and loose_key(bound):
            # An entry without macros may stand under a key that counts the CUID, and does not tell.
            is_bound = bool(entry.cuid) or not (entry.macros or self._lacks_cuid(adopted, front.cuid))
            cuid = front.cuid if is_bound else ""
            entries.put(self.shelf, front.loose, replace(adopted, macros=front.values, cuid=cuid))
        return adopted

    def _lacks_cuid(self, entry: Entry, cuid: str) -> bool:
        """Would it be the same with another CUID?"""
        if any(entry.passing[1:]):
            return True
        made = self.shelf.contents.read(entry.outputs[0]) if entry.outputs else None
        return made is not None and not has_cuid(entry.passing, made, cuid)

    def _asked(
        self, front: FrontEnd, entry: Entry, edit: Edit, macros: frozenset[str], names: frozenset[str]
    ) -> Entry | None:
        """The entry with what the preprocessor tells of lines and macros; None if the edit changes what it makes."""
        assert self.preprocess
        asks_lines = bool(edit.lines) and entry.lines is None
        if not (asks_lines or edit.marked) and self._is_unused(front, macros, edit):
            return replace(entry, unused=tuple(sorted(macros.union(entry.unused))))
        scans = [*map(includes.scan_macro, front.macros), *self._scans(front, edit)]
        if edit.reads.hides_marks or includes.may_hide_mark(scans):
            return None
        replaced = {self.files.basedir.local(path): content for path, content in edit.marked.items()}
        made = self.preprocess(front, Query(macros | {LINE} if asks_lines else macros, replaced, names))
        if made is None:
            return None
        if not asks_lines:
            return None if preprocessed.is_expanded(made) else entry
        numbered = preprocessed.numbered(made)
        return None if numbered is None else replace(entry, lines=tuple(sorted(self._lines(numbered, edit))))

    def _is_unused(self, front: FrontEnd, macros: frozenset[str], edit: Edit) -> bool:
        """Does the preprocessor not meet these macros of options at all? (Options come before what forbids them.)"""
        assert self.preprocess
        others = [value for value in front.macros if preprocessed.name_of(f"-D{value}") not in macros]
        if any(name in value for name in macros for value in others):
            return False
        made = self.preprocess(front, Query(left_out=macros, text=self._may_expand_pragmas(front, edit)))
        return made is not None and preprocessed.has_none(made, macros)

    def _may_expand_pragmas(self, front: FrontEnd, edit: Edit) -> bool:
        """May a macro stand in a pragma? (The parser expands OpenMP's where it does not ignore them.)"""
        if not front.separates_digits or any(option.text[0].startswith(_OF_PRAGMAS) for option in front.job.options):
            return True
        return edit.reads.expands_pragmas or any(scan.expands_pragmas for scan in self._scans(front, edit))

    def _scans(self, front: FrontEnd, edit: Edit) -> Iterator[Scan]:
        """Of what was edited. (The read set tells of the others, and of these before.)"""
        basedir = self.files.basedir
        for path in map(basedir.local, sorted(edit.files)):
            yield self.files.read(path, own=front.search.is_own(path, basedir))[2]

    def _differs_by_pass(self, edit: Edit) -> bool:
        """May another pass see another text of the files that are not the system's?"""
        own = (file for file in edit.reads.files if file.bare)
        return any(_BY_PASS.search(_content(self.files, file)) for file in own)

    def _renumbered(self, front: FrontEnd, entry: Entry, edit: Edit) -> str | None:
        """The messages that the compiler would print now; None if they are not known."""
        if not entry.text:
            return ""
        contents = {file.path: _content(self.files, file) for file in edit.reads.files if file.path in edit.files}
        text = messages.renumbered(entry.text, entry.places or (), contents, edit.lines)
        return None if text != entry.text and front.wraps_messages else text

    def _outputs(self, entry: Entry, front: FrontEnd, reads: ReadSet) -> tuple[str, ...] | None:
        """Those of the entry, with this CUID; None if they are not known."""
        cuid = front.cuid
        if entry.cuid in ("", cuid):
            return entry.outputs
        content = self.shelf.contents.read(entry.outputs[0]) if len(entry.outputs) == 1 else None
        if content is None or os.fsencode(entry.cuid) in content:
            return None
        old, new = clangs_hash(entry.cuid), clangs_hash(cuid)
        local, basedir = self.files.basedir.local, self.files.basedir
        own = (file for file in reads.files if not front.search.is_own(local(file.path), basedir))
        texts = [_content(self.files, file) for file in own]
        if any(old in value for value in front.macros) or any(old.encode() in text for text in texts):
            return None  # A name of the user's has it.
        made = renamed(content, old.encode(), new.encode())
        return (self.shelf.keep(made).hash,) if made is not None else None

    def _lines(self, numbered: Collection[str], edit: Edit) -> Iterator[str]:
        """See `Entry.lines`. (A file that must not be edited is none of them.)"""
        if not numbered:
            return  # as of most texts
        known = {plain(self.files.basedir.local(file.path)): file for file in edit.reads.files}
        for name in numbered:
            file = known.get(plain(name))
            if not file or file.bare:
                yield file.path if file else EVERYWHERE

    def _is_young(self, edit: Edit, began: float) -> bool:
        """May the preprocessor have seen another content of a file?"""
        local = self.files.basedir.local
        return any(times.latest(self.files.status(local(path))[4]) >= began for path in edit.files)


def _shows(entry: Entry, moved: frozenset[str]) -> bool:
    """May what the pass made have the number of a line of these files?"""
    lines = entry.lines or ()
    return EVERYWHERE in lines or not moved.isdisjoint(lines)


def with_reads(kept: ReadSets, entry: Entry, reads: ReadSet) -> Entry:
    """The entry with this read set, which is kept."""
    source = reads.files[0]
    return replace(entry, reads=kept.keep(reads), source=(source.digest, source.code))


def places(files: FileManager, front: FrontEnd, text: str, reads: ReadSet) -> tuple[MessageLine, ...] | None:
    """See `Entry.places`."""
    if not text or front.comments_matter or not front.quotes_lines:
        return None
    local = files.basedir.local
    try:
        return messages.places(
            local(text),
            reads.files,
            lambda file: _content(files, file),
            local,
            lambda path: front.search.is_own(path, files.basedir),
        )
    except (OSError, Untraceable):
        return None  # it changed since the pass read it


def _content(files: FileManager, file: ReadFile) -> bytes:
    """Raises OSError, Untraceable."""
    return files.content(files.basedir.local(file.path), file.digest)


def publish(shelf: Shelf, bound: Bound, entry: Entry, made: bytes) -> None:
    """Store the entry for other values of macros. `made`: see `Spelled.publish`."""
    front = pass_of(bound).front
    cuid = front.cuid if has_cuid(entry.passing, made, front.cuid) else ""
    entries.put(shelf, front.loose, replace(entry, macros=front.values, cuid=cuid))
