"""Results of passes after an edit that changes nothing of what the compiler sees: lines without text that came or went,
macros with other values that nobody uses.

Where no entry holds, and before the pass runs, the newest entries are compared with the files as they are by outlines
(`inputs/outline`). Whether the numbers of lines or the values of macros get into what the pass makes, the compiler's
own preprocessor tells (`inputs/preprocessed`). It is asked once about lines: the answer is kept with the entry. An edit
of code has another outline, and is not asked about.

Beside the entry under its own key, what a pass made is kept under a key without the values of macros
(`FrontEnd.loose`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping

from hipcache.build import Bound
from hipcache.cache import entries
from hipcache.cache.content import ReadSets, Shelf
from hipcache.cache.entries import Entry
from hipcache.cache.spelling import for_cuid, has_cuid
from hipcache.clang.cuid import clangs_hash
from hipcache.clang.frontend import FrontEnd, loose_key, pass_of
from hipcache.clang.renaming import renamed
from hipcache.disk import times
from hipcache.inputs import outline, preprocessed, quoted, renumbering
from hipcache.inputs.outline import Edit
from hipcache.inputs.preprocessed import EVERYWHERE, LINE
from hipcache.inputs.quoted import plain
from hipcache.inputs.readset import MessageLine, ReadFile, ReadSet
from hipcache.inputs.trace import Files, Untraceable
from hipcache.patterns import pattern
from hipcache.values import dataclass, replace

# States of the files to compare with: of a branch or two, and before the edit.
_MOST_COMPARED = 3
_WRAPS = pattern(r"-fmessage-length[= ][1-9]")


@dataclass(frozen=True)
class Edits:
    """`preprocess`: see `preprocessing.text`; `clock`: the wall clock in seconds."""

    shelf: Shelf
    reads: ReadSets
    files: Files
    preprocess: Callable[[FrontEnd, Collection[str], Mapping[str, bytes], Collection[str]], bytes | None]
    clock: Callable[[], float]

    def adopt(self, bound: Bound) -> bool:
        """Keep an entry of another state under the key of this one, if the pass would make the same."""
        front = pass_of(bound).front
        if not bound.is_cached or front.numbers_lines:
            return False
        keys = [*filter(None, (bound.key.digest, loose_key(bound)))]
        records = self.shelf.records(keys)
        for key in keys:
            for entry in entries.unpack(records.get(key))[:_MOST_COMPARED]:
                candidate = self._candidate(front, entry, loose=key == front.loose)
                if candidate:
                    try:
                        return self._adopt(bound, *candidate)
                    except (OSError, Untraceable):
                        return False  # a file is gone, or another one by now
        return False

    def _candidate(
        self, front: FrontEnd, entry: Entry, *, loose: bool
    ) -> tuple[Entry, Edit, frozenset[str], frozenset[str]] | None:
        """The entry, the edit since it was made, the macros of options that have other values, and the names in those;
        None if more has changed."""
        if entry.base not in ("", self.files.basedir.name) or (entry.text and entry.places is None):
            return None
        if entry.text and entry.message_format != front.message_format:
            return None
        passing = for_cuid(entry.passing, front.cuid) if loose else entry.passing
        revalued = front.revalued(entry.macros) if loose else (frozenset[str](), frozenset[str]())
        reads = self.reads.get(entry.reads)
        if reads is None or passing is None or revalued is None:
            return None
        macros, names = revalued
        edit = outline.edit(self.files, reads)
        if edit is None or not (edit.lines or macros) or edit.reads.files[0].path in edit.marked:
            return None
        return replace(entry, passing=passing, message_format=front.message_format), edit, macros, names

    def _adopt(self, bound: Bound, entry: Entry, edit: Edit, macros: frozenset[str], names: frozenset[str]) -> bool:
        front = pass_of(bound).front
        asks_lines = bool(edit.lines) and entry.lines is None
        if asks_lines or macros or edit.marked:
            began = times.change_limit(self.clock())
            replaced = {self.files.basedir.local(path): content for path, content in edit.marked.items()}
            text = self.preprocess(front, macros | {LINE} if asks_lines else macros, replaced, names)
            if text is None or preprocessed.is_expanded(text):
                return False
            if asks_lines:
                entry = replace(entry, lines=tuple(sorted(self._numbered(text, edit))))
            if self._is_young(edit, began) or self.files.differs_now(edit.reads):
                return False
        if entry.lines and (EVERYWHERE in entry.lines or not edit.lines.isdisjoint(entry.lines)):
            return False
        outputs = self._outputs(entry, front.cuid)
        if outputs is None:
            return False
        told = self._renumbered(entry, edit)
        if told is None:
            return False
        source = edit.reads.files[0]
        adopted = replace(told, reads=self.reads.keep(edit.reads), outputs=outputs, source=(source.digest, source.bare))
        entries.put(self.shelf, bound.key.digest, replace(adopted, macros=(), cuid=""))
        return True

    def _renumbered(self, entry: Entry, edit: Edit) -> Entry | None:
        """With the messages that the compiler would print now; None if they are not known."""
        if not (entry.text and edit.lines):
            return entry
        local = self.files.basedir.local
        contents = {file.path: _content(self.files, file) for file in edit.reads.files if file.path in edit.lines}
        text = renumbering.renumbered(entry.text, entry.places or (), edit.reads.files, contents)
        if text is None:
            return None
        moved = replace(entry, text=text)
        quotes = quoted.quotes(local(text), edit.reads.files, local, self.files.bare)
        return (
            replace(moved, quotes=quotes, places=places(self.files, moved, edit.reads)) if quotes is not None else None
        )

    def _outputs(self, entry: Entry, cuid: str) -> tuple[str, ...] | None:
        """Those of the entry, with this CUID; None if they are not known."""
        if entry.cuid in ("", cuid):
            return entry.outputs
        content = self.shelf.contents.read(entry.outputs[0]) if len(entry.outputs) == 1 else None
        if content is None or os.fsencode(entry.cuid) in content:
            return None
        made = renamed(content, clangs_hash(entry.cuid).encode(), clangs_hash(cuid).encode())
        return (self.shelf.keep(made).hash,) if made is not None else None

    def _numbered(self, text: bytes, edit: Edit) -> Iterator[str]:
        """See `Entry.lines`."""
        known = {plain(self.files.basedir.local(file.path)): file.path for file in edit.reads.files}
        for name in preprocessed.numbered(text):
            yield known.get(plain(name), EVERYWHERE)

    def _is_young(self, edit: Edit, began: float) -> bool:
        """May the preprocessor have seen another content of a file?"""
        local = self.files.basedir.local
        return any(times.latest(self.files.status(local(path))[4]) >= began for path in edit.lines)


def places(files: Files, entry: Entry, reads: ReadSet) -> tuple[MessageLine, ...] | None:
    """See `Entry.places`."""
    if _WRAPS.search(entry.message_format):
        return None
    try:
        return renumbering.places(entry.text, reads.files, lambda file: _content(files, file))
    except (OSError, Untraceable):
        return None  # it changed since the pass read it


def _content(files: Files, file: ReadFile) -> bytes:
    """Raises OSError, Untraceable."""
    return files.content(files.basedir.local(file.path), file.digest)


def publish(shelf: Shelf, bound: Bound, entry: Entry, made: bytes) -> None:
    """Store the entry for other values of macros. `made`: see `Spelled.publish`."""
    front = pass_of(bound).front
    cuid = front.cuid if has_cuid(entry.passing, made, front.cuid) else ""
    entries.put(shelf, front.loose, replace(entry, macros=front.values, cuid=cuid))
