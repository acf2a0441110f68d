"""Traces: which files a pass read, with their digests, and which files it looked for in vain.

A trace is checked before a front end's result is used again, as ccache checks a manifest: every file that was
read has the same content, every path that was absent still is, every path that was asked for is still there. The
digest of a file is taken again only where its status (device, inode, size, both times) is not the one
that was recorded; a status counts only when it was already old when it was recorded (git calls files
that are too young "racily clean"), since two writes within one tick of the clock look alike.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from hipcache.inputs import comments, includes, pasted
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.includes import Directory, Scan, SearchPath
from hipcache.inputs.keys import digest_bytes, digest_file
from hipcache.inputs.readset import ReadFile, ReadSet, Status
from hipcache.inputs.watched import ABSENT, DIRECTORY, FILE, GONE, LINK, MODE, NO_DIRECTORY, SAME, Watched

# The kernel stamps files with a clock that ticks every 1 to 10 ms: a change within this time before the
# pass began cannot be told from one during it.
TICK = 0.02
# A status younger than this may be shared by two contents on file systems with coarse times.
RACY = 2.0
# Seconds between looks at a directory whose times are perhaps just being set.
_LOOK_AGAIN = (0.0005, 0.002, 0.01)


class Untraceable(Exception):
    """The result of a pass must not be kept; the text says why."""


class Files:
    """The files of one compile: each is looked at once, whichever pass read it.

    `cwd` is where relative paths begin; `now` is the wall clock in seconds. Paths below `basedir` stand in read
    sets without it.
    """

    def __init__(self, cwd: str, now: float, basedir: Basedir) -> None:
        self.basedir = basedir
        self._cwd = cwd
        self._now = now
        self._digests: dict[str, tuple[Status, str]] = {}
        self._read: dict[str, tuple[Status, str, Scan]] = {}
        self._checked: dict[tuple[str, bool], str] = {}
        self._named: dict[str, Status] = {}
        self._identities: dict[str, object] = {}
        self._asked: dict[str, bool] = {}

    def resolve(self, path: str) -> str:
        return os.path.join(self._cwd, path)

    def identity(self, path: str) -> object:
        """The same for two names of one file or directory."""
        if path not in self._identities:
            self._identities[path] = includes.identity(self.resolve(path))
        return self._identities[path]

    def status(self, path: str) -> Status:
        """Raises OSError."""
        found = os.stat(self.resolve(path))
        return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)

    def is_there(self, path: str) -> bool:
        """Is there anything at `path`, be it a link that leads nowhere?"""
        return self._asked.setdefault(path, os.path.lexists(self.resolve(path)))

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
            raise Untraceable(f"'{path}' changed while it was read")
        self._digests[path] = (status, digest)
        return status, digest

    def named(self, path: str) -> str:
        """Digest of a file that an option names, so that it is part of a key. Raises OSError."""
        self._named[path], digest = self.digest(path)
        return digest

    def named_changed(self) -> str:
        """The first file with which something was keyed, and which is another one by now; empty if there is none."""
        for path, status in self._named.items():
            try:
                if self.status(path) != status:
                    return path
            except OSError:
                return path
        return ""

    def lasting(self, status: Status) -> Status | None:
        """The status if it is old enough to stand for the content, else None."""
        young = (self._now - RACY) * 1e9
        return status if status[3] < young and status[4] < young else None

    def read(self, path: str, *, own: bool = False) -> tuple[Status, str, Scan]:
        """(status, digest, scan) of a file that is read now. `own`: see `scan`. Raises OSError, Untraceable."""
        status = self.status(path)
        known = self._read.get(path)
        if known is not None and known[0] == status:
            return known
        with open(self.resolve(path), "rb") as file:
            content = file.read()
        if self.status(path) != status:
            raise Untraceable(f"'{path}' changed while it was read")
        self._read[path] = (status, digest_bytes(content), includes.scan(content, own=own))
        self._digests[path] = self._read[path][:2]
        return self._read[path]

    def bare(self, path: str, digest: str) -> str:
        """Digest of the text without comments, empty where it must be taken as it is. `digest` is that of the content
        it is to stand for: an edit may have come between. Raises OSError, Untraceable."""
        with open(self.resolve(path), "rb") as file:
            content = file.read()
        if digest_bytes(content) != digest:
            raise Untraceable(f"'{path}' changed while it was read")
        text = comments.without_comments(content)
        return digest_bytes(text) if text is not None else ""

    def differs(self, key: str, reads: ReadSet, *, exact: bool) -> str:
        """Why the read set no longer holds, in words; empty if it does. `key` names it for this compile; `exact`:
        comments count too."""
        if (key, exact) not in self._checked:
            self._checked[key, exact] = self._check(reads, exact)
        return self._checked[key, exact]

    def _check(self, reads: ReadSet, exact: bool) -> str:
        for file in reads.files:
            path = self.basedir.local(file.path)
            try:
                status = self.status(path)
                if status == file.status:
                    continue
                digest = self.digest(path)[1]
                if digest != file.digest and (exact or not file.bare or self.bare(path, digest) != file.bare):
                    return f"file '{path}' changed"
            except FileNotFoundError:
                return f"file '{path}' is gone"
            except OSError as error:
                return f"file '{path}' cannot be read: {error.strerror}"
            except Untraceable as error:
                return f"file {error}"
        for path in map(self.basedir.local, reads.absent):
            if os.path.lexists(self.resolve(path)):
                return f"'{path}' appeared, which was looked for in vain"
        for path in map(self.basedir.local, reads.present):
            if os.path.isdir(self.resolve(path)) != path.endswith("/") or not os.path.exists(self.resolve(path)):
                return f"'{path}' is gone, which was looked for"
        for path, name in self._first_names([path for path, _ in reads.alike]):
            if (path, name) not in reads.alike:
                return f"'{path}' is another file than it was, or a link to another one"
        return ""

    def watched(self) -> Iterator[Watched]:
        """What was looked at for the keys of this compile."""
        for path, status in self._named.items():
            yield Watched(FILE, self.resolve(path), status)
        for path, identity in self._identities.items():
            known = isinstance(identity, tuple)
            yield Watched(SAME, self.resolve(path), identity) if known else Watched(GONE, self.resolve(path))
        for path, there in self._asked.items():
            yield Watched(LINK if there else ABSENT, self.resolve(path))
            if there and os.path.exists(self.resolve(path)):
                yield Watched(MODE, self.resolve(path))

    def watched_reads(self, reads: ReadSet, *, exact: bool) -> Iterator[Watched]:
        """What a read set that holds depends on; as it was known when it was found to hold. `exact` as there. Raises
        Untraceable where that is no longer so, OSError."""
        for file in reads.files:
            path = self.basedir.local(file.path)
            status, digest = self._digests.get(path, (file.status, file.digest))
            same = digest == file.digest or (not exact and file.bare and self.bare(path, digest) == file.bare)
            if status is None or not same:
                raise Untraceable(f"'{path}' changed")
            yield Watched(FILE, self.resolve(path), status)
        for path in map(self.basedir.local, reads.absent):
            yield Watched(ABSENT, self.resolve(path))
        for path in map(self.basedir.local, reads.present):
            yield Watched(MODE, self.resolve(path), DIRECTORY if path.endswith("/") else NO_DIRECTORY)

    def alike(self, files: Iterable[ReadFile]) -> tuple[tuple[str, str], ...]:
        """See `ReadSet`."""
        paths: dict[str, list[str]] = {}
        for file in files:
            paths.setdefault(file.digest, []).append(file.path)
        return tuple(pair for names in paths.values() if len(names) > 1 for pair in self._first_names(names))

    def _first_names(self, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Each path, and the first one that names the same file."""
        first: dict[object, str] = {}
        for path in paths:
            yield path, first.setdefault(self.identity(self.basedir.local(path)), path)


def record(
    files: Files,
    *,
    read: list[str],
    user: frozenset[str] | None,
    first: list[str],
    macros: list[str],
    search: SearchPath,
    started: float,
    dated: bool,
) -> ReadSet:
    """The read set of a pass that began at `started` (wall clock, seconds).

    `read`: the files that it read, the source first; `user`: those that are no system headers (None: not
    known, all count as such); `first`: names of -include; `macros`: the values of -D; `dated`: the date is given by
    SOURCE_DATE_EPOCH.
    Raises Untraceable where the result must not be kept.
    """
    began = (started - TICK) * 1e9
    words: set[str] = set()
    for macro in macros:
        given = includes.scan_macro(macro)
        _refuse(f"-D {macro}", given, dated=dated)
        words |= given.pieces
    looked: list[tuple[str, Status, str]] = []
    scans: dict[str, Scan] = {}
    for path in read:
        try:
            status, digest, scan = files.read(path, own=search.is_own(path, files.basedir))
        except OSError as error:
            raise Untraceable(f"'{path}' cannot be read again: {error.strerror}") from error
        if status[4] >= began:  # the change time: nobody can set it back
            raise Untraceable(f"'{path}' changed while the compiler ran, or just before")
        _refuse(path, scan, dated=dated)
        scans[path] = scan
        words |= scan.pieces
        looked.append((path, status, digest))
    name = pasted.composed(words, (*pasted.QUESTIONS, *(("__TIMESTAMP__",) if dated else pasted.TIMES)))
    if name:
        raise Untraceable(f"its files may put {name} together from pieces")
    # What #embed reads is no C++.
    as_they_stand = any(scan.embeds or scan.comments_talk for scan in scans.values())
    found: list[ReadFile] = []
    for path, status, digest in looked:
        system = user is not None and path not in user
        # A header of the system is not edited.
        try:
            bare = "" if as_they_stand or path.startswith(search.system) else files.bare(path, digest)
        except OSError as error:
            raise Untraceable(f"'{path}' cannot be read again: {error.strerror}") from error
        found.append(ReadFile(files.basedir.portable(path), digest, files.lasting(status), system, bare))
    directory = Directory(files.resolve)
    probes = includes.probes(scans, first, search, directory)
    for path in probes.present:
        if "\\" in path:
            # Clang's dependency file writes it with a slash, which may be the name of another file.
            raise Untraceable(f"'{path}' has a backslash in its name")
        try:
            if files.status(path)[4] >= began and not path.endswith("/"):
                raise Untraceable(f"'{path}' appeared while the compiler ran, or just before")
        except OSError as error:
            raise Untraceable(f"'{path}' cannot be looked at: {error.strerror}") from error
    moved = _moved(files, [*scans, *probes.present], began)
    if moved:
        raise Untraceable(f"'{moved}' was put in its place while the compiler ran, or just before")
    absent, present = (sorted(map(files.basedir.portable, paths)) for paths in (probes.absent, probes.present))
    return ReadSet(tuple(found), tuple(absent), tuple(present), files.alike(found))


def _moved(files: Files, paths: Iterable[str], began: float) -> str:
    """A link or a directory on the way to one of `paths` that came there since `began`; empty if there is none.

    The files below a directory keep their times when it is renamed. Its own change time tells, and differs from its
    modification time unless an entry was made in it since. Known weakness: both, within one compile.
    """
    parts: set[str] = set()
    directories = set()
    for path in paths:
        full = files.resolve(path)
        parts.add(full)
        directories.add(os.path.dirname(full))
    for directory in [*directories, *map(os.path.realpath, directories)]:
        part = directory
        while part not in parts and part not in ("", "/"):
            parts.add(part)
            part = os.path.dirname(part)
    for part in sorted(parts):
        try:
            if came_since(began, partial(os.lstat, part)):
                return part
        except OSError:
            return part
    return ""


def came_since(began: float, look: Callable[[], os.stat_result]) -> bool:
    """Did the link or directory that `look` tells of come to its place since `began` (nanoseconds)? Raises OSError.

    Where an entry is made in a directory, Linux sets both times one after the other, and a look between the two (for
    some 50 us, measured on ext4) shows a directory that seems to have been renamed. So it is looked at again.
    """
    for pause in (*_LOOK_AGAIN, 0.0):
        found = look()
        if found.st_ctime_ns < began:
            return False
        if stat.S_ISLNK(found.st_mode):
            return True
        if not stat.S_ISDIR(found.st_mode) or found.st_mtime_ns >= found.st_ctime_ns:
            return False
        time.sleep(pause)
    return True


def _refuse(path: str, scan: Scan, *, dated: bool) -> None:
    times = scan.time_macros - ({"DATE", "TIME"} if dated else set())
    if times:
        raise Untraceable(f"'{path}' uses __{min(times)}__")
    if scan.asks_computed:
        raise Untraceable(f"'{path}' has a __has_include whose name is a macro")
    if scan.assembler_files:
        raise Untraceable(f"'{path}' has inline assembly that reads a file")
