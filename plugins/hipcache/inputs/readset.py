"""Read sets: what a pass read and looked for, as it is kept in the store.

Format of a read set (a blob of the store, shared by passes that read the same files): the length of a JSON text (4
bytes, little-endian), that text, and digests of 32 bytes, in the order in which the text speaks of them

    {"files": [[path, status or null, system, number of texts, [value, ...]], ...], "absent": [path, ...],
     "names": [number of a list, ...], "lists": [[name, ...], ...], "present": [path, ...],
     "alike": [[path, path], ...], "besides": [[path, status or null], ...], "links": [[path, text], ...],
     "epoch": text, "hides": true or false, "pragmas": true or false}

Of each file comes its digest, and those of its bare text and its outline if it has them. The paths of "absent" are
directories; "names" has the list of names for each. Of "files", "absent" and "present", a path is the number of
characters of the one before that it begins with, and the others: [12, "hip_runtime.h"]. Nothing is compressed: packs do
that, and find the same digests and paths in direct records, and in read sets of other sources.

Paths stand as clang spells them, relative ones relative to the working directory of the compile, those below
HIPCACHE_BASEDIR with a mark in its place.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple

from hipcache.base.keys import digest_file
from hipcache.base.times import keeps_change_time
from hipcache.base.values import dataclass

Status = tuple[int, int, int, int, int]
# A directory, with a slash at its end (empty: the working directory), and names that were looked for there in vain. A
# compile with many directories to search looks for each header in each of them.
Absent = tuple[str, tuple[str, ...]]


def status_of(found: os.stat_result) -> Status:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def tells(status: Sequence[int]) -> bool:
    """Would the file have another status after a change, if it is old enough?"""
    return keeps_change_time(status[0], *status[3:])


def known_by(path: str) -> Status | str:
    """What is another one where the file is: its status, or the digest of its content if that does not tell. Raises
    OSError."""
    status = status_of(os.stat(path))
    return status if tells(status) else digest_file(path)


@dataclass(frozen=True)
class ReadFile:
    """One file that a pass read. `system`: clang counts it as a system header (left out by -MMD). `bare`: digest of
    its text without comments; empty if comments may matter, and in headers of the system. `code`, `values`: digests of
    its outline (`inputs.outline`), those of values shortened; `code` is empty where `bare` is."""

    path: str
    digest: str
    status: Status | None
    system: bool
    bare: str
    code: str = ""
    values: tuple[str, ...] = ()


class MessageLine(NamedTuple):
    """A line that messages name: its file as in the read set, its number from 1, its rank among the lines with text
    (-1: it has none), and if messages show it, a digest of its text and what is around it (`messages`)."""

    path: str
    line: int
    rank: int
    digest: str


@dataclass(frozen=True)
class OtherFile:
    """A file that a pass opened, and that is no header to it."""

    path: str
    digest: str
    status: Status | None


@dataclass(frozen=True)
class ReadSet:
    """All that a pass depends on outside its command. `files` are in clang's order, the source first. `absent`: what it
    looked for in vain; `present`: what it looked for and did not read, directories with a slash. `alike`: each
    file whose content another one has too, and the first name of that very file (its own, or that of what it is a link
    to): `#pragma once` takes a file under two names once, and a copy of it twice. `besides`: what the pass opened,
    and no dependency file lists; `links`: the text of what it read as a link, empty if that is none; `epoch`: the
    SOURCE_DATE_EPOCH that a date in the text would be, empty if no text can show one. `hides_marks`: may a macro come
    into the name of a file that a condition asks for (`includes.may_hide_mark`)? `expands_pragmas`: as of `Scan`, of
    any file. (hipcache 1.0.0 kept neither: then both may be.)"""

    files: tuple[ReadFile, ...]
    absent: tuple[Absent, ...]
    present: tuple[str, ...]
    alike: tuple[tuple[str, str], ...] = ()
    besides: tuple[OtherFile, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    epoch: str = ""
    hides_marks: bool = False
    expands_pragmas: bool = False

    @property
    def all_files(self) -> tuple[ReadFile | OtherFile, ...]:
        return (*self.files, *self.besides)

    def pack(self) -> bytes:
        paths = _shortened(f.path for f in self.files)
        lists = {names: number for number, names in enumerate(dict.fromkeys(names for _, names in self.absent))}
        data = {
            "files": [
                [path, f.status, f.system, bool(f.bare) + bool(f.code), f.values]
                for path, f in zip(paths, self.files, strict=True)
            ],
            "absent": _shortened(place for place, _ in self.absent),
            "names": [lists[names] for _, names in self.absent],
            "lists": [*lists],
            "present": _shortened(self.present),
            "alike": self.alike,
            "besides": [[f.path, f.status] for f in self.besides],
            "links": self.links,
            "epoch": self.epoch,
            "hides": self.hides_marks,
            "pragmas": self.expands_pragmas,
        }
        text = json.dumps(data, separators=(",", ":")).encode("utf-8", "surrogateescape")
        digests = [*(f.digest + f.bare + f.code for f in self.files), *(f.digest for f in self.besides)]
        return len(text).to_bytes(4, "little") + text + bytes.fromhex("".join(digests))

    @classmethod
    def unpack(cls, packed: bytes) -> ReadSet:
        """Raises ValueError for anything that `pack` did not write."""
        try:
            end = 4 + int.from_bytes(packed[:4], "little")
            data = json.loads(packed[4:end].decode("utf-8", "surrogateescape"))
            digests = (packed[at : at + 32].hex() for at in range(end, len(packed) + 1, 32))
            paths = _whole(row[0] for row in data["files"])
            files = tuple(
                ReadFile(path, next(digests), _lasting(status), system, *_texts(digests, texts), tuple(values))
                for path, (_, status, system, texts, values) in zip(paths, data["files"], strict=True)
            )
            alike = tuple((path, first) for path, first in data["alike"])
            besides = tuple(OtherFile(path, next(digests), _lasting(status)) for path, status in data["besides"])
            links = tuple((path, text) for path, text in data["links"])
            epoch, told = data["epoch"], [data.get(name, True) is not False for name in ("hides", "pragmas")]
            if not isinstance(epoch, str):
                raise TypeError(epoch)
            if next(digests):
                raise ValueError("a digest is cut, or of no file")
            lists = [tuple(map(str, names)) for names in data["lists"]]
            names = [lists[number] for number in data["names"]]
            missed = tuple(zip(_whole(data["absent"]), names, strict=True))
            return cls(files, missed, tuple(_whole(data["present"])), alike, besides, links, epoch, *told)
        except (IndexError, KeyError, TypeError, RuntimeError, RecursionError, StopIteration) as error:
            raise ValueError(f"not a read set: {error}") from error


def _texts(digests: Iterator[str], number: int) -> tuple[str, str]:
    """`bare` and `code`: the second is of no file without the first."""
    return next(digests) if number else "", next(digests) if number > 1 else ""


def _shortened(paths: Iterable[str]) -> list[tuple[int, str]]:
    found, shared = list[tuple[int, str]](), ""
    for path in paths:
        while not path.startswith(shared):
            shared = shared[: shared.rfind("/", 0, -1) + 1]
        found.append((len(shared), path[len(shared) :]))
        shared = path[: path.rfind("/") + 1]
    return found


def _whole(paths: Iterable[tuple[int, str]]) -> Iterator[str]:
    before = ""
    for shared, rest in paths:
        before = before[:shared] + rest
        yield before


def _lasting(status: Sequence[int] | None) -> Status | None:
    """Of a read set. hipcache 1.0.0 kept those of files without a change time."""
    if not status:
        return None
    device, inode, size, modified, changed = status
    found = (device, inode, size, modified, changed)
    return found if tells(found) else None


def by_directory(paths: Iterable[str]) -> dict[str, set[str]]:
    """The names in each directory, which is as that of `Absent`."""
    places = defaultdict[str, set[str]](set)
    for place, slash, name in map(str.rpartition, paths, repeat("/")):
        places[place + slash].add(name)
    return places


def paths(missed: Iterable[tuple[str, Iterable[str]]]) -> Iterator[str]:
    """The reverse."""
    return (place + name for place, names in missed for name in names)


def absent(missed: Mapping[str, Iterable[str]]) -> tuple[Absent, ...]:
    """`missed`: names by directory."""
    return tuple((place, _ordered(frozenset(names))) for place, names in sorted(missed.items()))


# Hundreds of directories have the same names.
@lru_cache(maxsize=1000)
def _ordered(names: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def alike(files: Iterable[ReadFile], identity: Callable[[str], object]) -> tuple[tuple[str, str], ...]:
    """See `ReadSet`. `identity`: the same for two names of one file."""
    paths: dict[str, list[str]] = {}
    for file in files:
        paths.setdefault(file.digest, []).append(file.path)
    return tuple(pair for names in paths.values() if len(names) > 1 for pair in first_names(names, identity))


def first_names(paths: Iterable[str], identity: Callable[[str], object]) -> Iterator[tuple[str, str]]:
    """Each path, and the first one that names the same file."""
    first: dict[object, str] = {}
    for path in paths:
        yield path, first.setdefault(identity(path), path)
