"""Results of passes over a source, by key and by trace, like ccache's manifests.

Under a key are entries (`entries`), each with a read set: the files that the pass read, with their digests, and the
paths that it looked for and did not find. The newest entry whose files are unchanged is the result. If there is none,
an entry for every spelling of its paths may fit (`spelling`), or one of another state of the files (`edits`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from hipcache.base.values import dataclass, field, replace
from hipcache.build import ActionId, ActionResult, Bound, Dependency, Digest, Missing, Ran
from hipcache.cache import entries
from hipcache.cache.content import ReadSets, Shelf
from hipcache.cache.entries import Entry
from hipcache.clang.frontend import FrontEnd, loose_key, pass_of
from hipcache.inputs.file_manager import FileManager, Untraceable

if TYPE_CHECKING:
    from hipcache.cache.edits import Edits
    from hipcache.cache.spelling import Spelled

NEVER = "nothing is stored for this command"
_LOST = "the store no longer has the files written beside its output"


@dataclass(frozen=True)
class ManifestCache:
    """For actions whose work is a `Pass`. `files`: their current state; `directory`: the command's."""

    shelf: Shelf
    reads: ReadSets
    files: FileManager
    directory: str
    _read: dict[str, tuple[Dependency, ...]] = field(default_factory=dict)
    _compared: set[ActionId] = field(default_factory=set)

    def look_up(self, wanted: Sequence[Bound]) -> dict[ActionId, ActionResult | Missing]:
        """One request for all records, one for the records of every spelling, one for the contents."""
        keys = {bound.action.id: bound.key.digest for bound in wanted}
        records = self.shelf.records(list(keys.values())) if wanted else {}
        found: dict[ActionId, Entry | Missing] = {
            bound.action.id: self._holding(pass_of(bound).front, entries.unpack(records.get(bound.key.digest)))
            for bound in wanted
        }
        left = [bound for bound in wanted if isinstance(found[bound.action.id], Missing) and pass_of(bound).shared]
        for bound, entry in self._spelled.look_up(left) if left else ():
            entries.put(self.shelf, bound.key.digest, entry)
            found[bound.action.id] = entry
        for bound in (bound for bound in wanted if isinstance(found[bound.action.id], Missing)):
            if bound.action.id in self._compared:
                continue  # `adopt` follows
            self._compared.add(bound.action.id)
            # Else there are no others to compare with: a hit in two steps looks for one in one step first.
            if records.get(bound.key.digest) or loose_key(bound) or pass_of(bound).shared:
                found[bound.action.id] = self.edits.adopt(bound) or found[bound.action.id]
        named = {hash for result in found.values() if isinstance(result, Entry) for hash in result.outputs if hash}
        sizes = self.shelf.contents.sizes(named)
        return {bound.action.id: self._result(bound, found[bound.action.id], sizes) for bound in wanted}

    @cached_property
    def _spelled(self) -> Spelled:
        from hipcache.cache.spelling import Spelled, Translation

        return Spelled(self.shelf, self.reads, Translation(self.files, self.directory))

    @cached_property
    def edits(self) -> Edits:
        from hipcache.cache.edits import Edits

        return Edits(self.shelf, self.reads, self.files, self._spelled)

    def _holding(self, front: FrontEnd, known: Sequence[Entry]) -> Entry | Missing:
        """The newest entry whose files are unchanged, and whose messages (if any) have the right format; otherwise why
        the newest entry does not hold."""
        why = NEVER
        for number, entry in enumerate(known):
            # The reason is told of the newest alone; behind it are up to 15 earlier states of an edited source.
            if number and self._is_other(front.source, entry.source[0]):
                continue
            reason = self._differs(front, entry)
            if not reason:
                return entry
            if number == 0:
                why = reason
        return Missing(why, talked=bool(known) and bool(known[0].text))

    def _differs(self, front: FrontEnd, entry: Entry) -> str:
        reads = self.reads.get(entry.reads)
        if reads is None:
            return "the store no longer has the list of files that it read"
        if entry.base and entry.base != self.files.basedir.name:
            return (
                f"its output names its checkout, '{entry.base}', or may contain a __FILE__ from there "
                f"(-ffile-prefix-map={entry.base.partition(':')[0]}=. takes the name away)"
            )
        if entry.text and entry.message_format != front.message_format:
            return "its messages need another format (colours, terminal width)"
        return self.files.differs(entry.reads, reads)

    def _is_other(self, path: str, digest: str) -> bool:
        """Is its content surely another one than that of the digest?"""
        try:
            return bool(digest) and self.files.digest(path)[1] != digest
        except (OSError, Untraceable):
            return False

    def _result(self, bound: Bound, found: Entry | Missing, sizes: dict[str, int]) -> ActionResult | Missing:
        if isinstance(found, Missing):
            return found
        action = bound.action
        outputs = {name: hash for name, hash in zip(action.stored, found.outputs, strict=False) if hash}
        if not sizes.keys() >= set(outputs.values()):
            main = outputs.get(action.outputs[0], "")
            return Missing(_LOST if not main or main in sizes else action.missing)
        return ActionResult(
            {name: Digest(hash, sizes[hash]) for name, hash in outputs.items()},
            self.files.basedir.local(found.text) if not found.base else found.text,
            found.seconds,
            dict(zip(action.passing, found.passing, strict=False)),
            found.reads,
            self._dependencies(found.reads),
        )

    def _dependencies(self, digest: str) -> tuple[Dependency, ...]:
        if digest not in self._read:
            reads, local = self.reads.get(digest), self.files.basedir.local
            assert reads
            self._read[digest] = tuple(Dependency(local(file.path), file.system) for file in reads.files)
        return self._read[digest]

    def publish(self, bound: Bound, ran: Ran) -> ActionResult:
        """Store the result, if that is allowed and possible."""
        trace, front = ran.pass_trace, pass_of(bound).front
        assert trace
        result = replace(self.shelf.result(bound.action, ran), files=trace.files)
        if trace.reads is None or ran.why_not:
            self.shelf.note(f"not stored: {ran.why_not}")
            return result
        outputs = tuple(result.outputs[name].hash if name in result.outputs else "" for name in bound.action.stored)
        passing = tuple(result.passing[name] for name in bound.action.passing)
        text = self._portable_messages(front, ran.text)
        base = self.files.basedir.name if trace.names_base or text is None else ""
        from hipcache.cache import edits

        said = ran.text if base or text is None else text
        new = Entry("", outputs, passing, said, front.message_format, ran.seconds, base)
        places = edits.places(self.files, front, said, trace.reads)
        entry = replace(edits.with_reads(self.reads, new, trace.reads), places=places)
        entries.put(self.shelf, bound.key.digest, entry)
        made = ran.outputs[bound.action.outputs[0]].read()
        if pass_of(bound).shared:
            self._spelled.publish(bound, entry, trace.reads, made)
        if (front.quotes_lines or not ran.text) and loose_key(bound):
            edits.publish(self.shelf, bound, entry, made)
        return replace(result, reads=entry.reads)

    def _portable_messages(self, front: FrontEnd, text: str) -> str | None:
        """As `Basedir.portable_messages`. Clang wraps lines of a given width behind the path that they begin with."""
        return None if text and front.wraps_messages else self.files.basedir.portable_messages(text)
