"""The files as they are now, each looked at once (as clang's FileManager does), and what differs of them from a trace:
the files that a pass read, with their digests, and those that it looked for in vain (`recording` makes it).

A trace is checked before a front end's result is used again, as ccache checks a manifest: every file that was read has
the same content, every path that was absent still is, every path that was asked for is still there. The digest of a
file is taken again only where its status (device, inode, size, both times) differs; a status counts only if it has a
change time (`base/times`) and was old then, since two writes within one tick of the clock look alike.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from hipcache.base import native
from hipcache.base.keys import digest_bytes, digest_file
from hipcache.base.native import PathStatus
from hipcache.base.paths import absolute, why_not_missing
from hipcache.inputs import search
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.readset import Absent, OtherFile, ReadFile, ReadSet, Status, first_names, status_of, tells
from hipcache.inputs.scans import Scan, Scanned, Scans
from hipcache.inputs.search import Listings
from hipcache.inputs.watched import ABSENT, DIRECTORY, FILE, GONE, LINK, MODE, NO_DIRECTORY, NUMBER, SAME, Watched

# A status younger than this may be shared by two contents on file systems with coarse times.
RACY = 2.0
_File = TypeVar("_File", bound=ReadFile | OtherFile)


class Untraceable(Exception):
    """The result of a pass must not be kept; the text says why."""


class Unobserved(Untraceable):
    """Only the observer can tell which files it reads, and observing was not possible."""


class FileManager:
    """The files of one compile: each is looked at once, whichever pass read it. `cwd`: where relative paths begin;
    `now`: the wall clock in seconds. Paths below `basedir` stand in read sets without it. `scans`: what earlier
    compiles found in files; `racy`: see `Context`; `epoch`: SOURCE_DATE_EPOCH; `outlines`: see there, by digest."""

    def __init__(
        self, cwd: str, now: float, basedir: Basedir, scans: Scans | None = None, *, racy: float = RACY, epoch: str = ""
    ) -> None:
        self.basedir = basedir
        self.epoch = epoch
        self._scans = scans
        self._cwd = cwd
        self._now = now
        self._racy = racy
        self._digests: dict[str, tuple[Status, str]] = {}
        self._read: dict[str, tuple[Status, str, Scan]] = {}
        self.outlines: dict[str, tuple[str, str, tuple[str, ...]]] = {}
        self._checked: dict[str, str] = {}
        # By the identity of what stands first: (read set, its files as `native.listed`, what was there when it held),
        # (what was looked for in vain, the same as `native.listed`). After an edit the second is that of before.
        self._held: dict[int, tuple[ReadSet, bytes, bytes]] = {}
        self._absent: dict[int, tuple[Sequence[Absent], bytes]] = {}
        self._named: dict[str, Status] = {}
        self._identities: dict[str, object] = {}
        self._numbers: dict[str, Status] = {}
        self._asked: dict[str, bool] = {}
        self._reading = threading.Lock()
        self.listings = Listings(self.resolve, self._settled)

    def resolve(self, path: str) -> str:
        return absolute(path, self._cwd)

    def identity(self, path: str) -> object:
        """The same for two names of one file or directory."""
        if path not in self._identities:
            self._identities[path] = search.identity(self.resolve(path))
        return self._identities[path]

    def identity_of(self, portable: str) -> object:
        """The same for a path of a read set."""
        return self.identity(self.basedir.local(portable))

    def status(self, path: str) -> Status:
        """Raises OSError."""
        return status_of(os.stat(self.resolve(path)))

    def statuses(self, paths: Iterable[str]) -> list[PathStatus | None]:
        """What is at each path, None where nothing is."""
        return native.statuses([*map(self.resolve, paths)])

    def numbered(self, path: str) -> Status:
        """The status of a file whose inode is part of a key. Raises OSError."""
        self._numbers[path] = self.status(path)
        return self._numbers[path]

    def is_there(self, path: str) -> bool:
        """Is there anything at `path`, be it a link that leads nowhere?"""
        if path not in self._asked:
            self._asked[path] = os.path.lexists(self.resolve(path))
        return self._asked[path]

    def link(self, path: str) -> str:
        """The text of a link, empty for what is none."""
        try:
            return os.readlink(self.resolve(path))
        except OSError:
            return ""

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(self.resolve(path))

    def is_named(self, path: str) -> bool:
        """Is its content part of a key?"""
        return path in self._named

    def exists(self, path: str) -> bool:
        """Is there something at `path` that can be read as a header?"""
        return os.path.exists(self.resolve(path)) and not os.path.isdir(self.resolve(path))

    def digest(self, path: str) -> tuple[Status, str]:
        """(status, digest of the content) of a regular file. Raises OSError."""
        status = self.status(path)
        known = self._digests.get(path)
        if known is not None and known[0] == status:
            return known
        digest = digest_file(self.resolve(path))
        if self.status(path) != status:
            raise Untraceable(f"'{path}' changed while hipcache read it")
        self._digests[path] = (status, digest)
        return status, digest

    def named(self, path: str) -> str:
        """Digest of a file that an option names, so that it is part of a key. Raises OSError."""
        self._named[path], digest = self.digest(path)
        return digest

    def named_changed(self) -> str:
        """The first file with which something was keyed, and which is another one by now; empty if there is none."""
        for path, status in [*self._named.items()]:  # another thread may name one more meanwhile
            try:
                if self.status(path) != status:
                    return path
            except OSError:
                return path
        return ""

    def lasting(self, status: Status) -> Status | None:
        """The status if it stands for the content, else None."""
        return status if all(map(self._settled, status[3:])) and tells(status) else None

    def _settled(self, time: int) -> bool:
        """Will a change from now on get another time (nanoseconds)?"""
        return time < (self._now - self._racy) * 1e9

    def read(self, path: str, *, own: bool = False, found: PathStatus | None = None) -> tuple[Status, str, Scan]:
        """(status, digest, scan) of a file as it is now. `own`: see `scan`; `found`: its status, if it was just taken.
        Raises OSError, Untraceable."""
        status = found.status if found else self.status(path)
        known = self._read.get(path)
        if known is not None and known[0] == status:
            return known
        with self._reading:  # another pass may be at the same one
            known = self._read.get(path)
            if known is None or known[0] != status:
                known = self._read[path] = self._scanned(path, status, own=own)
                self._digests[path] = known[:2]
        return known

    def _scanned(self, path: str, status: Status, *, own: bool) -> tuple[Status, str, Scan]:
        full = self.resolve(path)
        scans = self._scans if self.lasting(status) else None
        if scans and (known := scans.get(full, status, own=own)):
            return status, known.digest, known.scan
        with open(full, "rb") as file:
            content = file.read()
        if self.status(path) != status:
            raise Untraceable(f"'{path}' changed while hipcache read it")
        from hipcache.inputs import includes  # a hit reads no text

        found = Scanned(status, own, digest_bytes(content), includes.scan(content, own=own))
        if scans:
            scans.put(full, found)
        return status, found.digest, found.scan

    def scanned(self, path: str, digest: str) -> Scan | None:
        """The scan of a file that this compile has read, if its content was that of the digest."""
        known = self._read.get(path)
        return known[2] if known and known[1] == digest else None

    def content(self, path: str, digest: str) -> bytes:
        """The content with that digest. Raises OSError, or Untraceable where an edit has come between."""
        with open(self.resolve(path), "rb") as file:
            content = file.read()
        if digest_bytes(content) != digest:
            raise Untraceable(f"'{path}' changed while hipcache read it")
        return content

    def changed(self, files: Sequence[_File], found: Sequence[PathStatus | None] | None = None) -> Iterator[_File]:
        """Those that have another status than then, or none that tells, or that may not be read. `found`: as they are
        now, if they were just looked at."""
        found = self.statuses(self.basedir.local(file.path) for file in files) if found is None else found
        for file, now in zip(files, found, strict=True):
            if not (now and now.readable and now.status == file.status):
                yield file

    def differs(self, key: str, reads: ReadSet) -> str:
        """Why the read set no longer holds, in words; empty if it does. `key` names it for this compile."""
        if key not in self._checked:
            self._checked[key] = self.differs_now(reads)
        return self._checked[key]

    def differs_now(self, reads: ReadSet) -> str:
        """The same, as it is at this moment."""
        # The source first: where it was edited, nobody needs to look at its headers.
        if why := self._differ(reads.files[:1]):
            return why
        _, paths, held = self._held.get(id(reads)) or (reads, self._listed(reads.all_files), b"")
        found = native.look(paths)
        # What looks as it did when the read set held still holds.
        if found != held and (why := self._differ(reads.all_files, native.statuses_in(found))):
            return why
        self._held[id(reads)] = reads, paths, found
        return self._others_differ(reads)

    def others_differ(self, reads: ReadSet) -> str:
        """The same of all but the files that it read."""
        return self._differ(reads.besides) or self._others_differ(reads)

    def _differ(self, files: Sequence[_File], found: Sequence[PathStatus | None] | None = None) -> str:
        """Why one of the files is another one, in words. `found`: their statuses, if they were just taken."""
        for file in self.changed(files, found):
            path = self.basedir.local(file.path)
            try:
                if self.digest(path)[1] != file.digest:
                    return f"file '{path}' changed"
            except FileNotFoundError:
                return f"file '{path}' is gone"
            except OSError as error:
                return f"file '{path}' cannot be read: {error.strerror}"
            except Untraceable as error:
                return f"file {error}"
        return ""

    def _others_differ(self, reads: ReadSet) -> str:
        """The same of all that it did not read."""
        if reads.epoch and reads.epoch != self.epoch:
            return f"SOURCE_DATE_EPOCH was {reads.epoch}, and a source may use that date"
        for path, text in reads.links:
            if self.link(self.basedir.local(path)) != self.basedir.local(text):
                return f"symbolic link '{self.basedir.local(path)}' has another target"
        if id(reads.absent) not in self._absent:
            paths = b"".join(native.listed(names, self._directory(place)) for place, names in reads.absent)
            self._absent[id(reads.absent)] = reads.absent, paths
        if path := native.not_missing(self._absent[id(reads.absent)][1]):
            asked = ((place, name) for place, names in reads.absent for name in names)
            spelled = next((place + name for place, name in asked if self._directory(place) + name == path), path)
            found = why_not_missing(path) or "came and went"
            return f"'{self.basedir.local(spelled)}' {found}; the last compile looked for it"
        for path in map(self.basedir.local, reads.present):
            if os.path.isdir(self.resolve(path)) != path.endswith("/") or not os.path.exists(self.resolve(path)):
                return f"'{path}' no longer exists; the last compile looked for it"
        for path, name in first_names([path for path, _ in reads.alike], self.identity_of):
            if (path, name) not in reads.alike:
                return f"'{path}' is now another file, or a link to another file"
        return ""

    def _listed(self, files: Iterable[_File]) -> bytes:
        return native.listed([self.resolve(self.basedir.local(file.path)) for file in files])

    def _directory(self, place: str) -> str:
        """The absolute path of a directory of `Absent`, with a slash at its end."""
        return os.path.join(self.resolve(self.basedir.local(place)), "")

    def watched(self) -> Iterator[Watched]:
        """The files that were looked at for the keys of this compile."""
        for path, status in self._named.items():
            yield Watched(FILE, self.resolve(path), status)
        for path, (device, inode, *_) in self._numbers.items():
            yield Watched(NUMBER, self.resolve(path), (device, inode))
        for path, identity in self._identities.items():
            known = isinstance(identity, tuple)
            yield Watched(SAME, self.resolve(path), identity) if known else Watched(GONE, self.resolve(path))
        for path, there in self._asked.items():
            yield Watched(LINK if there else ABSENT, self.resolve(path))
            if there and os.path.exists(self.resolve(path)):
                yield Watched(MODE, self.resolve(path))

    def watched_reads(self, reads: ReadSet) -> Iterator[Watched]:
        """The inputs of a read set that holds, as they were when it was found to hold. Raises Untraceable if it no
        longer holds, and OSError."""
        for file in reads.all_files:
            path = self.basedir.local(file.path)
            status, digest = self._digests.get(path, (file.status, file.digest))
            if status is None or digest != file.digest:
                raise Untraceable(f"'{path}' changed")
            yield Watched(FILE, self.resolve(path), status)
        for path, text in reads.links:
            yield Watched(LINK, self.resolve(self.basedir.local(path)), self.basedir.local(text) or None)
        for place, names in reads.absent:
            yield Watched(ABSENT, self._directory(place), names)
        for path in map(self.basedir.local, reads.present):
            yield Watched(MODE, self.resolve(path), DIRECTORY if path.endswith("/") else NO_DIRECTORY)

    def digests(self, reads: Iterable[ReadSet]) -> dict[Status, str]:
        """Digests of contents by the status that their file had when they were read, now or for one of `reads`."""
        known = {file.status: file.digest for read in reads for file in read.all_files if file.status}
        return {**known, **dict(self._digests.values())}
