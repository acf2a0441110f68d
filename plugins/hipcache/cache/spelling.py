"""Read sets in the spelling of one command, and in that of all (see `clang.spelling`)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from itertools import chain

from hipcache.base.values import dataclass, field, replace
from hipcache.build import Bound
from hipcache.cache import entries
from hipcache.cache.content import ReadSets, Shelf
from hipcache.cache.entries import Entry
from hipcache.clang import bitcode, spelling
from hipcache.clang.cc1 import Role
from hipcache.clang.cuid import clangs_hash
from hipcache.clang.frontend import FrontEnd, pass_of
from hipcache.clang.spelling import Spelling
from hipcache.inputs import place
from hipcache.inputs.file_manager import FileManager
from hipcache.inputs.readset import ReadSet, absent, by_directory


@dataclass(frozen=True)
class Translation:
    """`directory`: of the command. `_translated`: read sets of other spellings, by their digest and the spelling that
    they are in here."""

    files: FileManager
    directory: str
    _translated: dict[tuple[str, Spelling], ReadSet | None] = field(default_factory=dict)
    _spellings: dict[int, tuple[FrontEnd, Spelling | None]] = field(default_factory=dict)

    def spelling(self, front: FrontEnd) -> Spelling | None:
        if id(front) not in self._spellings:
            self._spellings[id(front)] = front, self._spelling(front)
        return self._spellings[id(front)][1]

    def _spelling(self, front: FrontEnd) -> Spelling | None:
        cwd = self.directory
        found = spelling.of(front.job, cwd)
        if found is None:
            return None
        if os.path.realpath(cwd) != cwd and any(not spelled.startswith("/") for _, spelled in found.directories):
            return None  # `..` does not lead where the name of the directory says
        # Clang takes a file in the place of a directory for a list of headers and their places.
        given = [
            option.value
            for option in front.job.options
            if option.role is Role.SEARCH and not option.name.startswith("-internal-")
        ]
        return None if any(now and stat.S_ISREG(now.mode) for now in self.files.statuses(given)) else found

    def for_all(
        self, reads: ReadSet, spelled: Spelling, macros: tuple[tuple[str, str], ...], own: tuple[str, ...]
    ) -> ReadSet | None:
        """The read set with absolute paths; None if one of them is not clear, or may be in the output."""
        portable, local = self.files.basedir.portable, self.files.basedir.local
        scans = {local(file.path): self.files.scanned(local(file.path), file.digest) for file in reads.files}
        known = {path: scan for path, scan in scans.items() if scan is not None}
        if reads.besides or reads.links or reads.epoch or len(known) < len(scans) or place.shows(known, macros, own):
            return None
        named = {name for scan in known.values() for name in scan.quoted | scan.angled | scan.next} | set(spelled.bare)
        untold = any(
            scan.embeds or scan.includes_computed or scan.asks_computed or scan.unclear for scan in known.values()
        )
        if untold or not _are_relative(named, spelled):
            return None
        whole = spelled.absolute({path: scan.quoted | scan.next for path, scan in known.items()}, named)
        if [spelled.spelled(path) for path in whole.values()] != list(scans):
            return None
        # clang looks for the files of -include in the working directory, which may be another one elsewhere.
        bare = set(spelled.bare)
        here, unclear, missed = set[str](), set[str](), dict[str, set[str]]()
        for directory, names in reads.absent:
            directories, further = spelled.places_in(local(directory), names)
            here.update(() if directory else names)
            unclear.update(() if directories else (directory + name for name in names if name not in further))
            for found in directories:
                missed.setdefault(found, set()).update(names)
            for found, them in by_directory(chain(*further.values())).items():
                missed.setdefault(found, set()).update(them)
        present = {path: spelled.places(local(path).rstrip("/")) for path in reads.present}
        unclear.update(path for path, found in present.items() if not found)
        if not bare <= here or unclear - bare:
            return None
        there = (portable(place) + "/" * path.endswith("/") for path, found in present.items() for place in found)
        return replace(
            reads,
            files=tuple(replace(file, path=portable(whole[local(file.path)])) for file in reads.files),
            absent=absent({portable(place): names for place, names in missed.items()}),
            present=tuple(sorted(there)),
            alike=tuple((portable(whole[local(path)]), portable(whole[local(first)])) for path, first in reads.alike),
        )

    def in_spelling(self, digest: str, reads: ReadSet, spelled: Spelling) -> ReadSet | None:
        """The read set (with that digest) of the same pass in this spelling; None if that is not clear."""
        if (digest, spelled) not in self._translated:
            portable, local = self.files.basedir.portable, self.files.basedir.local
            paths = [spelled.spelled(local(file.path)) for file in reads.files]
            files = tuple(replace(file, path=portable(path)) for file, path in zip(reads.files, paths, strict=True))
            clear = all(paths) and paths[0] == spelled.source[1]
            here = replace(reads, files=files, absent=(*reads.absent, *absent(by_directory(spelled.bare))))
            self._translated[digest, spelled] = here if clear else None
        return self._translated[digest, spelled]


def _are_relative(named: set[str], spelled: Spelling) -> bool:
    """Do the names of headers go behind those of directories as they stand? Behind the working directory, which clang
    names by a dot, it leaves out another dot."""
    return not any(name.startswith("/") or (spelled.has_working_directory and name.startswith("./")) for name in named)


# The path-independent manifest: a pass that another front ran, or that ran for another build directory: the same but
# for how it spells its paths.
#
# Beside the entry under its own key, what a pass made is kept under a key for every spelling (`clang.spelling`), if
# no path is in it, nor anything made from one. Where a command finds nothing under its own key, it looks there; what it
# finds it translates into its own spelling, and keeps like the entry of a pass that it has run.
#
#     read set   paths are absolute; relative again are only those of files, which the dependency file lists
#     bitcode    the digest of what it says but for the CUID (`bitcode`), where it has that only in the variable's name
#     CUID       what has it otherwise is another entry's for each CUID


@dataclass(frozen=True)
class Spelled:
    """`_everywhere`: digests of read sets for every spelling (empty: there is none), by what they were made from;
    `_keys`: for every spelling, by the own ones."""

    shelf: Shelf
    reads: ReadSets
    translation: Translation
    _everywhere: dict[tuple[object, ...], str] = field(default_factory=dict)
    _keys: dict[str, str] = field(default_factory=dict)

    def look_up(self, wanted: Sequence[Bound]) -> Iterator[tuple[Bound, Entry]]:
        """Entries for the spelling of each, made from the newest for every spelling whose files are as they were."""
        spelled = {bound.action.id: self.translation.spelling(pass_of(bound).front) for bound in wanted}
        keys = {bound.action.id: self._key(bound, found) for bound in wanted if (found := spelled[bound.action.id])}
        records = self.shelf.records(list(keys.values())) if keys else {}
        for bound in wanted:
            found = spelled[bound.action.id]
            raw = records.get(keys.get(bound.action.id, ""))
            for entry, here, name in self._translated(bound, found, raw) if found else ():
                if not self.translation.files.differs(name, here):
                    yield bound, replace(entry, reads=self.reads.keep(here))
                    break

    def translated(self, bound: Bound) -> Iterator[tuple[Entry, ReadSet, str]]:
        """Entries for the spelling of this one, with their read sets, and names of these."""
        spelled = self.translation.spelling(pass_of(bound).front)
        if spelled:
            key = self._key(bound, spelled)
            yield from self._translated(bound, spelled, self.shelf.records([key]).get(key))

    def _translated(
        self, bound: Bound, spelled: Spelling, record: bytes | None
    ) -> Iterator[tuple[Entry, ReadSet, str]]:
        front, files = pass_of(bound).front, self.translation.files
        cuid = front.job.value(Role.CUID)
        for entry in entries.unpack(record):
            reads = self.reads.get(entry.reads)
            if reads is None or entry.cuid not in ("", cuid) or entry.base not in ("", files.basedir.name):
                continue
            passing = for_cuid(entry.passing, cuid)
            here = self.translation.in_spelling(entry.reads, reads, spelled)
            if here is not None and passing is not None:
                own = replace(entry, passing=passing, message_format=front.message_format, cuid="")
                yield own, here, f"{entry.reads} {id(here)}"  # `_translated` keeps it

    def publish(self, bound: Bound, entry: Entry, reads: ReadSet, made: bytes) -> None:
        """Store the entry for every spelling, if it may be. `made`: what the pass wrote, an object or bitcode."""
        front = pass_of(bound).front
        spelled = (
            None if entry.text or front.hides_paths(bitcode=bool(entry.passing)) else self.translation.spelling(front)
        )
        if spelled is None or (bitcode.in_bitcode(made) if entry.passing else bitcode.in_object(made)):
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
        own, portable = bound.key.digest, self.translation.files.basedir.portable
        if own not in self._keys:
            self._keys[own] = spelling.key(bound.key, pass_of(bound).front.job, spelled, portable).digest
        return self._keys[own]


def for_cuid(passing: tuple[str, ...], cuid: str) -> tuple[str, ...] | None:
    """The digests of bitcode with another CUID; None if they are not known."""
    if not any(passing[1:]):  # an object of one step has only its own digest
        return passing
    digest = bitcode.digest_for(passing[1], cuid)
    return (digest, passing[1]) if digest else None


def has_cuid(passing: tuple[str, ...], made: bytes, cuid: str) -> bool:
    """Would it be another one with another CUID, beyond the name of the variable in bitcode?"""
    neutral = bool(passing and passing[1])
    return not neutral and (clangs_hash(cuid).encode() in made or os.fsencode(cuid) in made)
