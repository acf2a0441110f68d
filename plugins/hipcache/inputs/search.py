"""The names that a pass looked for and did not find: they would change it if they appeared.

The dependency file names the headers that were read. A header that appears *earlier* in the search path, or a
file that `__has_include` asked for in vain, changes the output as well; ccache and sccache go stale
here. So each file that was read is scanned (`includes`) for the names that it asks for, and each
name is looked for along the search path: every place before the first one that has it is recorded as absent. An absent
path is recorded by its shortest missing part: where `/inc/rocprim` does not exist, one check stands for all headers
below it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache

from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass
from hipcache.inputs.basedir import Basedir
from hipcache.inputs.readset import by_directory
from hipcache.inputs.scans import Scan

# Which headers are known, and the same everywhere: by the name of their directory, and their own name in it. A system
# directory holds headers of any library; a directory of the compiler's or of a library of C++ those alone. Such a
# one is known by how its path ends: above that stands what a user has named.
#
# `.../lib/clang/19/include/`; clang 15 also names the directory above.
_COMPILERS = pattern(r".*/lib\w*/clang/[0-9][\w.]*/(?:include/(?:\w+_wrappers/(?:bits/)?)?)?")
# `.../include/c++/12/`, `.../include/x86_64-linux-gnu/c++/12/`, `.../include/c++/12/backward/`, of libc++
# `.../include/c++/v1/`, Gentoo's `.../include/g++-v12/x86_64-pc-linux-gnu/`, and Guix's `.../include/c++/`.
_LIBRARYS = pattern(r".*/include/(?:[\w.-]+/)?(?:c\+\+/|(?:c\+\+/|g\+\+-)v?[0-9][0-9.]*/)(?:backward/|\w+(?:-\w+)+/)?")
_LIBCS = pattern(r".*/include/(?:\w+(?:-\w+)+/)?")
_USERS = "/local/include/"
# Below a system directory: of glibc and Linux.
_DIRECTORIES = ("bits/", "sys/", "gnu/", "asm/", "asm-generic/", "linux/")
# HIP's, and its libraries whose macros lend __FILE__ out, for messages only (HipcubDebug).
_OF_HIP = ("hip/", "hipcub/", "rocprim/", "thrust/")
# Of the C standard and POSIX, and what glibc's own of these include.
_NAMES = frozenset(
    (
        *("alloca", "assert", "byteswap", "complex", "ctype", "dirent", "dlfcn", "endian", "errno", "execinfo"),
        *("fcntl", "features", "features-time64", "fenv", "float", "getopt", "inttypes", "iso646", "langinfo"),
        *("libgen", "libintl", "limits", "link", "locale", "malloc", "math", "memory", "nl_types", "poll", "pthread"),
        *("pwd", "regex", "sched", "semaphore", "setjmp", "signal", "spawn", "stdalign", "stdarg", "stdatomic"),
        *("stdbool", "stdc-predef", "stddef", "stdint", "stdio", "stdlib", "string", "strings", "syscall", "tgmath"),
        *("threads", "time", "uchar", "ucontext", "unistd", "wchar", "wctype"),
    )
)


@dataclass(frozen=True)
class SearchPath:
    """The directories of a pass in the order in which clang looks (clang/lib/Lex/InitHeaderSearch.cpp). `system`: those
    of system headers, each with a slash at its end, `own` those that the compiler chooses itself. `users`: how many of
    `angled` are of -I."""

    quote: tuple[str, ...]
    angled: tuple[str, ...]
    system: tuple[str, ...] = ()
    users: int = 0
    own: tuple[str, ...] = ()

    def is_own(self, path: str, basedir: Basedir) -> bool:
        """Is it a header of the compiler's own, of a standard library or of HIP's? None of a checkout is."""
        return _is_own(self.own, path) and basedir.portable(path) == path

    def searched(self, listings: Listings) -> tuple[str, ...]:
        """`angled` as clang takes it: each directory once, and one of -I that is a system directory too only there."""
        identities = [listings.identity(place) for place in self.angled]
        system = set(identities[self.users :])
        kept: dict[object, str] = {}
        for number, (place, identity) in enumerate(zip(self.angled, identities, strict=True)):
            if number >= self.users or identity not in system:
                kept.setdefault(identity, place)
        return tuple(kept.values())


def identity(path: str) -> object:
    """The same for two names of one file or directory. `path` is absolute."""
    try:
        found = os.stat(path)
    except OSError:
        return path
    return found.st_dev, found.st_ino


class Listings:
    """The names in directories: each is listed once, and again if it may have changed. `resolve` makes a path absolute;
    `settled` tells of a time of change (nanoseconds) whether the next change will have another one."""

    def __init__(self, resolve: Callable[[str], str], settled: Callable[[int], bool] = lambda _: False) -> None:
        self._resolve = resolve
        self._settled = settled
        # Each with its status; None if the status may not show the next change.
        self._listed: dict[str, tuple[object, frozenset[str] | None]] = {}
        self._found: dict[tuple[str, tuple[str, ...]], tuple[str, tuple[str, ...]]] = {}
        self._lock = threading.Lock()
        self._unsettled = False  # did the last answer need a listing whose status is None?

    @contextmanager
    def up_to_date(self) -> Iterator[None]:
        """Answers given meanwhile are true now: listings that may have changed are forgotten before. One thread at a
        time, since a listing of another thread may be older."""
        with self._lock:
            for path, (status, _) in list(self._listed.items()):
                if status is None:
                    del self._listed[path]  # no answer that is kept needed it
                elif self._status(path) != status:
                    del self._listed[path]
                    self._found.clear()
            yield

    def find(self, name: str, places: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """(the path of `name` in the first place that has it, empty if none has; what is missing in those before)."""
        known = self._found.get((name, places))
        if known is None:
            self._unsettled = False
            known = self._find(name, places)
            if not self._unsettled:
                self._found[name, places] = known
        return known

    def _find(self, name: str, places: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        absent: list[str] = []
        for place in places:
            missing = self.missing_part(place, name)
            if missing is None:
                return os.path.join(place, name) if place else name, tuple(absent)
            absent.append(missing)
        return "", tuple(absent)

    def missing_part(self, directory: str, name: str) -> str | None:
        """The shortest leading part of `directory`/`name` that does not exist; None if all of it exists."""
        path = directory
        if not path and name.startswith("/"):
            path, name = "/", name.lstrip("/")
        elif self._list(path) is None:
            return path
        for part in name.split("/"):
            if part in ("", "."):
                continue
            if part == "..":
                path = os.path.join(path, part)
                if self._list(path) is None:
                    return path
                continue
            listing = self._list(path)
            path = os.path.join(path, part)
            if listing is None or part not in listing:
                return path
        return None

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(self._resolve(path))

    def identity(self, path: str) -> object:
        return identity(self._resolve(path))

    def _list(self, path: str) -> frozenset[str] | None:
        known = self._listed.get(path)
        if known is None:
            status = self._status(path)
            try:
                known = status, frozenset(os.listdir(self._resolve(path)))
            except OSError:
                known = status, None
            self._listed[path] = known
        self._unsettled = self._unsettled or known[0] is None
        return known[1]

    def _status(self, path: str) -> object:
        """A value that is not the same for two listings that differ; None if it might be."""
        try:
            found = os.stat(self._resolve(path))
        except OSError as error:
            return error.errno
        settled = self._settled(found.st_mtime_ns) and self._settled(found.st_ctime_ns)
        return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns) if settled else None


@dataclass(frozen=True)
class Probes:
    """`absent`: paths that must not exist, as names by directory (as in `readset.Absent`); `present`: paths that must,
    though no pass read them. A directory among those, which clang passed over, ends in a slash."""

    absent: Mapping[str, Collection[str]]
    present: frozenset[str]


def probes(scans: Mapping[str, Scan], first: Iterable[str], search: SearchPath, listings: Listings) -> Probes:
    """The names to look for besides the files that were read.

    `scans`: path of each file that was read (as clang spells it) -> its scan. `first`: names of `-include`.
    """
    absent: set[str] = set()
    present: set[str] = set()
    done: set[tuple[str, str]] = set()
    explained: set[str] = set()
    angled = search.searched(listings)
    behind = (*search.quote, *angled)

    def search_for(name: str, places: tuple[str, ...]) -> None:
        while True:
            found, missing = listings.find(name, places)
            absent.update(missing)
            if not found or found in scans or not listings.is_directory(found):
                break
            present.add(found + "/")
            places = places[len(missing) + 1 :]  # as clang does: a directory is no header
        if found:
            explained.add(found)
            if found not in scans:
                present.add(found)

    for name in first:
        search_for(name, ("", *behind))
    for path, found in scans.items():
        here = os.path.dirname(path)
        around = (here, *behind)
        for name in found.quoted:
            if (here, name) not in done:
                done.add((here, name))
                search_for(name, ("",) if name.startswith("/") else around)
        for name in found.angled:
            if ("<", name) not in done:
                done.add(("<", name))
                search_for(name, ("",) if name.startswith("/") else angled)
        for name in found.next:
            for place in around:
                search_for(name, (place,))  # which one is the next depends on where this file was found
    absent.update(_computed(scans, behind, listings, explained))
    return Probes(by_directory(absent), frozenset(present))


def _computed(
    scans: Mapping[str, Scan], places: tuple[str, ...], listings: Listings, explained: Collection[str]
) -> Iterator[str]:
    """Files that no name in the text explains (`#include MACRO`, a directive behind a comment of several lines): where
    else they could have been."""
    rest = [path for path in list(scans)[1:] if path not in explained]  # the source itself was not looked for
    plain = set(map(os.path.normpath, explained)) if rest else set()
    here = {os.path.dirname(path) for path in scans}
    for path in rest:
        if os.path.normpath(path) in plain:
            continue
        for i, place in enumerate(places):
            if path.startswith(place.rstrip("/") + "/"):
                name = path[len(place.rstrip("/")) + 1 :]
                for earlier in (*here, *places[:i]):
                    missing = listings.missing_part(earlier, name)
                    if missing is not None:
                        yield missing


def is_standard(place: str, name: str) -> bool:
    """Is the header of that name below `place`, a directory of the compiler's choice with a slash at its end, the
    compiler's own, or of a standard library of C or C++?"""
    whole, libcs = _holds(place)
    if whole:
        return True
    return libcs and (name.startswith(_DIRECTORIES) or (name.endswith(".h") and name[:-2] in _NAMES))


def is_known(place: str, name: str) -> bool:
    """Is it one of these, or of HIP's or its libraries'?"""
    return name.startswith(_OF_HIP) or is_standard(place, name)


@lru_cache(maxsize=1 << 12)  # the passes of a compile read the same files
def _is_own(places: tuple[str, ...], path: str) -> bool:
    place = max(filter(path.startswith, places), key=len, default="")
    name = path[len(place) :]
    # A header there may include another one beside the directory (`hip/../mine/x.h`).
    return bool(place) and ".." not in name.split("/") and is_known(place, name)


@lru_cache(maxsize=1 << 10)
def _holds(place: str) -> tuple[bool, bool]:
    """(such headers alone, those of libc among others)"""
    whole = bool(_COMPILERS.fullmatch(place) or _LIBRARYS.fullmatch(place))
    return whole, bool(_LIBCS.fullmatch(place)) and not place.endswith(_USERS)
