"""The paths that a pass really looked at: the list of the native observer (`native/observe.c`), as read sets have it.

Nothing is guessed: each path is as the pass spelled it, and was there or not when the pass asked for it. An absent path
is written down by its shortest missing part: clang asks once for a directory that is not there, and for nothing below.

Left out: what the pass wrote (its outputs, temporary files), and what the kernel makes up (/proc, /sys, /dev).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from hipcache.disk.paths import absolute, is_of_kernel
from hipcache.disk.times import latest
from hipcache.patterns import pattern
from hipcache.values import dataclass, field

# As clang writes relative names into dependency files.
_DOTS = pattern(r"^(?:\./+)+")
_ITSELF = ("", ".", "/")
# Languages and time zones: of messages that we ask for in no other language, and of __DATE__, which is never kept.
# (What is not there may be a header that `__has_include` looks for.)
_SURROUNDINGS = ("/usr/lib/locale/", "/usr/share/locale/", "/usr/share/zoneinfo/", "/etc/localtime")
# The directory or the root of another process, or what is above the kernel's.
_LEADS_OUT = pattern(r"/(?:cwd|root|\.\.)(?:/|$)")


@dataclass
class Observed:
    """`opened`: files that were opened to be read; `there`: others that were there; `directories`: that were there;
    `absent`: that were not; `links`: that were read as links, or looked at as such; `written`: files that were opened
    to be written; `unclear`: a path and why what it is cannot be told, both empty if there is none."""

    opened: set[str] = field(default_factory=set)
    there: set[str] = field(default_factory=set)
    directories: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    unclear: tuple[str, str] = ("", "")

    def has_read(self, path: str) -> bool:
        """May it have read the file?"""
        return plain(path) in self.opened or plain(path) in self.there

    def joined(self, other: Observed) -> Observed:
        """The paths that one or the other looked at."""
        return Observed(
            self.opened | other.opened,
            (self.there | other.there) - self.opened - other.opened,
            self.directories | other.directories,
            self.absent | other.absent,
            self.links | other.links,
            self.written | other.written,
            self.unclear if self.unclear[0] else other.unclear,
        )


def parse(listed: bytes, ignore: str) -> Observed:
    """Nothing below directory `ignore` counts: there the pass writes."""
    seen = Observed()
    written = seen.written
    for row in dict.fromkeys(os.fsdecode(listed).split("\0")[:-1]):
        how, found, path = row[:1], row[1:2], row[2:]
        if path.startswith(".") or path.endswith("/"):
            path = plain(path).rstrip("/") or path[:1]
        if path in _ITSELF or (path.startswith(ignore) and (path + "/").startswith(ignore + "/")):
            continue
        if found != "-" and path.startswith(_SURROUNDINGS):
            continue
        if how == "w":
            written.add(path)
        elif found == "-":
            seen.absent.add(path)
        elif found in "?b":
            seen.unclear = path, "is a dangling symbolic link" if found == "b" else "cannot be read"
        elif is_of_kernel(absolute(path, "")):
            if _LEADS_OUT.search(path):
                seen.unclear = path, "leads out of /proc, /sys or /dev"
        elif how == "l":
            seen.links.add(path)
        elif found == "d":
            if how == "d":
                seen.unclear = path, "is a directory whose entries it may have listed"
            seen.directories.add(path)
        elif how in "rx":
            seen.opened.add(path)
        else:
            seen.there.add(path)
    seen.opened -= written
    seen.there -= written | seen.opened
    seen.absent -= written
    seen.links -= written
    return seen


def plain(path: str) -> str:
    """The path as it is listed."""
    return _DOTS.sub("", path)


def changed(seen: Observed, status: Callable[[str], os.stat_result], began: float) -> str:
    """A path that came or went since `began` (nanoseconds); empty if there is none. The observer looks just before the
    kernel does: what differs between the two has changed its directory. `status`: os.lstat, of any path."""
    present = seen.opened | seen.there | seen.directories
    for path in sorted(seen.absent & present):
        return path
    for absent, paths in ((True, seen.absent), (False, present)):
        for place, names in _by_directory(paths):
            if not _is_there(place or ".", status) or latest(status(place or ".").st_mtime_ns) < began:
                continue
            for path in names:
                if _is_there(path, status) == absent:
                    return path
    return ""


def _by_directory(paths: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """The paths of each directory (os.path.dirname): a compile with many directories to search looks for each header in
    each of them."""
    places = defaultdict[str, list[str]](list)
    for path in paths:
        places[path[: path.rfind("/") + 1]].append(path)
    return ((os.path.dirname(place), names) for place, names in places.items())


def _directory(path: str) -> str:
    """os.path.dirname, for some 8,000 calls of a compile."""
    end = path.rfind("/")
    return path[:end] if end > 0 and path[end - 1] != "/" else os.path.dirname(path)


def _is_there(path: str, status: Callable[[str], os.stat_result]) -> bool:
    try:
        status(path)
    except OSError:
        return False
    return True


def shortest(absent: set[str], exists: Callable[[str], bool]) -> set[str]:
    """The shortest missing part of each path."""
    found = set()
    for directory, paths in _by_directory(absent):
        if directory in _ITSELF or exists(directory):
            found.update(paths)
        else:
            found |= shortest({directory}, exists)
    return found


def unexplained(directories: set[str], files: set[str]) -> set[str]:
    """The directories in which none of the files lies, which therefore need not be there."""
    above: set[str] = set()
    for path in files:
        directory = _directory(path)
        while directory and directory not in above:
            above.add(directory)
            directory = _directory(directory) if directory != "/" else ""
    return directories - above
