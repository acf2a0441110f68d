"""Read sets in the spelling of one command, and in that of all (see `planning.spelling`)."""

from __future__ import annotations

import os
from itertools import chain

from hipcache.inputs import place
from hipcache.inputs.readset import ReadSet, absent, by_directory, paths
from hipcache.inputs.trace import Files
from hipcache.planning import spelling
from hipcache.planning.cc1 import Role
from hipcache.planning.frontend import FrontEnd
from hipcache.planning.spelling import Spelling
from hipcache.values import dataclass, field, replace


@dataclass(frozen=True)
class Translation:
    """`directory`: of the command. `_translated`: read sets of other spellings, by their digest and the spelling that
    they are in here."""

    files: Files
    directory: str
    _translated: dict[tuple[str, Spelling], ReadSet | None] = field(default_factory=dict)
    _spellings: dict[int, tuple[FrontEnd, Spelling | None]] = field(default_factory=dict)

    def spelling(self, front: FrontEnd) -> Spelling | None:
        if id(front) not in self._spellings:
            self._spellings[id(front)] = front, self._spelling(front)
        return self._spellings[id(front)][1]

    def _spelling(self, front: FrontEnd) -> Spelling | None:
        cwd, resolve = self.directory, self.files.resolve
        found = spelling.of(front.job, cwd)
        if found is None:
            return None
        if os.path.realpath(cwd) != cwd and any(not spelled.startswith("/") for _, spelled in found.directories):
            return None  # `..` does not lead where the name of the directory says
        # Clang takes a file in the place of a directory for a list of headers and their places.
        given = [
            one.value for one in front.job.options if one.role is Role.SEARCH and not one.name.startswith("-internal-")
        ]
        return None if any(os.path.isfile(resolve(name)) for name in given) else found

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
        untold = any(one.embeds or one.includes_computed or one.asks_computed or one.unclear for one in known.values())
        if untold or not _are_relative(named, spelled):
            return None
        whole = spelled.absolute({path: scan.quoted | scan.next for path, scan in known.items()}, named)
        if [spelled.spelled(path) for path in whole.values()] != list(scans):
            return None
        # clang looks for the files of -include in the working directory, which may be another one elsewhere.
        bare = set(spelled.bare)
        missed = paths((local(place), names) for place, names in reads.absent)
        places = {path: spelled.places(path) for path in missed}
        present = {path: spelled.places(local(path).rstrip("/")) for path in reads.present}
        unclear = {path for path, found in (*places.items(), *present.items()) if not found}
        if not bare <= set(places) or unclear - bare:
            return None
        return ReadSet(
            tuple(replace(file, path=portable(whole[local(file.path)])) for file in reads.files),
            absent({portable(place): names for place, names in by_directory(chain(*places.values())).items()}),
            tuple(
                sorted(portable(place) + "/" * path.endswith("/") for path, found in present.items() for place in found)
            ),
            tuple((portable(whole[local(path)]), portable(whole[local(first)])) for path, first in reads.alike),
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
