"""The path-independent manifest: a pass that another front ran, or that ran for another build directory: the same but
for how it spells its paths.

Beside the entry under its own key, what a pass made is kept under a key for every spelling (`planning.spelling`), if no
path is in it, nor anything made from one. Where a command finds nothing under its own key, it looks there; what it
finds it translates into its own spelling, and keeps like the entry of a pass that it has run.

    read set   paths are absolute; relative again are only those of files, which the dependency file lists
    bitcode    the digest of what it says but for the CUID (`bitcode`), where it has that only in the variable's name
    CUID       what has it otherwise is another entry's for each CUID
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from hipcache.cache import entries
from hipcache.cache.content import Shelf
from hipcache.cache.entries import Entry
from hipcache.cache.read_sets import ReadSets
from hipcache.cache.translation import Translation
from hipcache.inputs.readset import ReadSet
from hipcache.making import bitcode, unnamed
from hipcache.model import Bound, pass_of
from hipcache.planning import spelling
from hipcache.planning.cc1 import Role
from hipcache.planning.cuid import clangs_hash
from hipcache.planning.spelling import Spelling
from hipcache.values import dataclass, field, replace


@dataclass(frozen=True)
class Spelled:
    """`_everywhere`: digests of read sets for every spelling (empty: there is none), by what they were made from."""

    shelf: Shelf
    reads: ReadSets
    translation: Translation
    _everywhere: dict[tuple[object, ...], str] = field(default_factory=dict)

    def look_up(self, wanted: Sequence[Bound]) -> Iterator[tuple[Bound, Entry]]:
        """Entries for the spelling of each, made from the newest for every spelling whose files are as they were."""
        spelled = {bound.action.id: self.translation.spelling(pass_of(bound).front) for bound in wanted}
        keys = {bound.action.id: self._key(bound, found) for bound in wanted if (found := spelled[bound.action.id])}
        records = self.shelf.records(list(keys.values())) if keys else {}
        for bound in wanted:
            found = spelled[bound.action.id]
            raw = records.get(keys.get(bound.action.id, ""))
            entry = self._here(bound, found, entries.unpack(raw)) if found and raw else None
            if entry:
                yield bound, entry

    def _here(self, bound: Bound, spelled: Spelling, known: Sequence[Entry]) -> Entry | None:
        front, files = pass_of(bound).front, self.translation.files
        cuid = front.job.value(Role.CUID)
        for entry in known:
            if files.is_other(front.source, *entry.source, exact=front.comments_matter):
                continue
            reads = self.reads.get(entry.reads)
            if reads is None or entry.cuid not in ("", cuid) or entry.base not in ("", files.basedir.name):
                continue
            passing = for_cuid(entry.passing, cuid)
            here = self.translation.in_spelling(entry.reads, reads, spelled)
            if (
                here is None
                or passing is None
                or files.differs(f"{entry.reads} {spelled}", here, exact=front.comments_matter)
            ):
                continue
            return replace(
                entry, reads=self.reads.keep(here), passing=passing, message_format=front.message_format, cuid=""
            )
        return None

    def publish(self, bound: Bound, entry: Entry, reads: ReadSet, made: bytes) -> None:
        """Store the entry for every spelling, if it may be. `made`: what the pass wrote, an object or bitcode."""
        front = pass_of(bound).front
        spelled = (
            None if entry.text or front.hides_paths(bitcode=bool(entry.passing)) else self.translation.spelling(front)
        )
        if spelled is None or (unnamed.in_bitcode(made) if entry.passing else unnamed.in_object(made)):
            return
        macros = tuple((option.name, option.value) for option in front.job.options if option.role is Role.MACRO)
        own = front.search.own
        # Most architectures read the same files.
        kind = entry.reads, spelled, macros, own
        if kind not in self._everywhere:
            everywhere = self.translation.for_all(reads, spelled, macros, own)
            self._everywhere[kind] = self.reads.keep(everywhere) if everywhere else ""
        digest, cuid = self._everywhere[kind], front.job.value(Role.CUID)
        if not digest:
            return
        whole = replace(
            entry, reads=digest, message_format="", cuid=cuid if has_cuid(entry.passing, made, cuid) else ""
        )
        entries.put(self.shelf, self._key(bound, spelled), whole)

    def _key(self, bound: Bound, spelled: Spelling) -> str:
        portable = self.translation.files.basedir.portable
        return spelling.key(bound.key, pass_of(bound).front.job, spelled, portable).digest


def for_cuid(passing: tuple[str, ...], cuid: str) -> tuple[str, ...] | None:
    """The digests of bitcode with another CUID; None if they are not known."""
    if not passing or not passing[1]:
        return passing
    digest = bitcode.digest_for(passing[1], cuid)
    return (digest, passing[1]) if digest else None


def has_cuid(passing: tuple[str, ...], made: bytes, cuid: str) -> bool:
    """Would it be another one with another CUID, beyond the name of the variable in bitcode?"""
    neutral = bool(passing and passing[1])
    return not neutral and (clangs_hash(cuid).encode() in made or os.fsencode(cuid) in made)
