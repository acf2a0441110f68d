"""The paths that a pass really looked at: the list of the native observer (`native/observer/observer.c`), as read sets
have it.

Nothing is guessed: each path is as the pass spelled it, and was there or not when the pass asked for it. An absent path
is written down by its shortest missing part: clang asks once for a directory that is not there, and for nothing below.

Left out: what the pass wrote (its outputs, temporary files), and what the kernel makes up (/proc, /sys, /dev).
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from hipcache.base import native
from hipcache.base.native import SELF_LISTED
from hipcache.base.paths import absolute, is_of_kernel
from hipcache.base.patterns import pattern
from hipcache.base.times import latest
from hipcache.base.values import dataclass, field
from hipcache.inputs.readset import by_directory, paths

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
    `missed`: names that were not, by directory (as `readset.Absent`; most directories share a set); `links`: that were
    read as links, or looked at as such; `written`: files that were opened to be written; `unclear`: a path and why what
    it is cannot be told, both empty if there is none."""

    opened: set[str] = field(default_factory=set)
    there: set[str] = field(default_factory=set)
    directories: set[str] = field(default_factory=set)
    missed: dict[str, frozenset[str]] = field(default_factory=dict)
    links: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    unclear: tuple[str, str] = ("", "")

    @property
    def absent(self) -> set[str]:
        return set(paths(self.missed.items()))

    def has_read(self, path: str) -> bool:
        """May it have read the file?"""
        return plain(path) in self.opened or plain(path) in self.there

    def joined(self, other: Observed) -> Observed:
        """The paths that one or the other looked at."""
        return Observed(
            self.opened | other.opened,
            (self.there | other.there) - self.opened - other.opened,
            self.directories | other.directories,
            union(self.missed, other.missed),
            self.links | other.links,
            self.written | other.written,
            self.unclear if self.unclear[0] else other.unclear,
        )


def parse(listed: bytes, ignore: str) -> Observed:
    """Nothing below directory `ignore` counts: there the pass writes."""
    seen = Observed()
    written, missed = seen.written, list[str]()
    held, _, unheld = listed.partition(SELF_LISTED)
    for row in dict.fromkeys(filter(None, os.fsdecode(held).split("\0"))):
        how, found, path = row[:1], row[1:2], _counted(row[2:], ignore)
        if not path:
            continue
        if found == "-":
            missed.append(path)
            continue
        if path.startswith(_SURROUNDINGS):
            continue
        if how == "w":
            written.add(path)
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
    seen.links -= written
    with _one_at_a_time:
        seen.missed = union(missing(missed), _missed(unheld, ignore))
    for place, names in by_directory(written).items():
        if place in seen.missed:
            seen.missed[place] -= names
    return seen


# Passes that end together mostly have the same rows: the second one takes the answer of the first.
_one_at_a_time = threading.Lock()


@lru_cache(maxsize=2)
def _missed(rows: bytes, ignore: str) -> dict[str, frozenset[str]]:
    """Paths that a pass has listed itself. The passes of a compile mostly miss the same ones: 40,000 for 1,000
    directories."""
    found = by_directory([row[2:] for row in os.fsdecode(rows).split("\0") if row])
    odd = [place for place, names in found.items() if "" in names or place.startswith((".", ignore))]
    again = [_counted(path, ignore) for place in odd for path in paths([(place, found.pop(place))])]
    return union(_shared(found), missing(filter(None, again)))


def missing(paths: Iterable[str]) -> dict[str, frozenset[str]]:
    """As `Observed.missed`."""
    return _shared(by_directory(paths))


def _shared(missed: Mapping[str, set[str]]) -> dict[str, frozenset[str]]:
    known: dict[frozenset[str], frozenset[str]] = {}
    frozen = ((place, frozenset(names)) for place, names in missed.items())
    return {place: known.setdefault(names, names) for place, names in frozen}


def union(one: Mapping[str, frozenset[str]], other: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """The names of both."""
    return {**one, **{place: _united(one[place], names) if place in one else names for place, names in other.items()}}


@lru_cache(maxsize=1000)
def _united(one: frozenset[str], other: frozenset[str]) -> frozenset[str]:
    return one | other


@lru_cache(maxsize=1000)
def _without(names: frozenset[str], those: frozenset[str]) -> frozenset[str]:
    return names - those


def without(missed: Mapping[str, frozenset[str]], those: Iterable[str]) -> dict[str, frozenset[str]]:
    """Without these names, in whatever directory."""
    gone = frozenset(those)
    return {place: left for place, names in missed.items() if (left := _without(names, gone))}


def _counted(path: str, ignore: str) -> str:
    """The path as it is listed; empty if it does not count."""
    if path.startswith(".") or path.endswith("/"):
        path = plain(path).rstrip("/") or path[:1]
    ignored = path in _ITSELF or (path.startswith(ignore) and (path + "/").startswith(ignore + "/"))
    return "" if ignored else path


def plain(path: str) -> str:
    """The path as it is listed: clang leaves the dot out of `./x.h` in dependency files, but not in messages."""
    return _DOTS.sub("", path)


def changed(seen: Observed, resolve: Callable[[str], str], began: float) -> str:
    """A path that came or went since `began` (nanoseconds); empty if there is none. The observer looks just before the
    kernel does: what differs between the two has changed its directory. `resolve` makes a path absolute."""
    present = seen.opened | seen.there | seen.directories
    there = missing(present)
    for place, names in there.items():
        for name in sorted(names.intersection(seen.missed.get(place, ()))):
            return place + name
    for absent, places in ((True, seen.missed), (False, there)):
        looked = native.statuses([resolve(place or ".") for place in places], links=True)
        for (place, names), found in zip(places.items(), looked, strict=True):
            if found and latest(found.status[3]) >= began:
                for name in names:
                    if os.path.lexists(resolve(place + name)) == absent:
                        return place + name
    return ""


def _directory(path: str) -> str:
    """os.path.dirname, for some 8,000 calls of a compile."""
    end = path.rfind("/")
    return path[:end] if end > 0 and path[end - 1] != "/" else os.path.dirname(path)


def shortest(missed: Mapping[str, frozenset[str]], resolve: Callable[[str], str]) -> dict[str, frozenset[str]]:
    """The shortest missing part of each path, as names by directory. `resolve` makes a path absolute."""
    parents = {place: path for place in missed if (path := os.path.dirname(place)) not in _ITSELF}
    looked = native.statuses([*map(resolve, parents.values())])
    gone = {place for place, found in zip(parents, looked, strict=True) if not (found and stat.S_ISDIR(found.mode))}
    found = {place: names for place, names in missed.items() if place not in gone}
    return union(found, shortest(missing(parents[place] for place in gone), resolve)) if gone else found


def unexplained(directories: set[str], files: set[str]) -> set[str]:
    """The directories in which none of the files lies, which therefore need not be there."""
    above: set[str] = set()
    for path in files:
        directory = _directory(path)
        while directory and directory not in above:
            above.add(directory)
            directory = _directory(directory) if directory != "/" else ""
    return directories - above
