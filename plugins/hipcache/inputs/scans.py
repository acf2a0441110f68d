"""The results of earlier compiles for files: digest and scan, by the file's status (as ccache's inode cache keeps
digests).

To read, hash and scan its headers takes longer than all else that hipcache does for a compile; so the first one that
meets a header does it. A status stands for the content only if it was old enough when the content was read.

Format of a record, one for each directory of files: JSON in zlib's format {name: [status, own, digest, scan], ...}, a
scan as the list of its fields.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from hipcache.base.compression import pack_json, unpack_json
from hipcache.base.keys import make_key
from hipcache.base.values import dataclass
from hipcache.inputs.readset import Status

# To be raised with each change of what a scan looks for.
_FORMAT = "6"
_MOST_FILES = 2000


@dataclass(frozen=True)
class Scan:
    """The relevant words in the text of one file. `quoted`/`angled`: names of headers; `asks_computed`: it has a
    `__has_include` whose name only the preprocessor knows; `time_macros`: of DATE, TIME, TIMESTAMP; `assembler_files`:
    inline assembly that reads a file (`.incbin`); `embeds`: it has an #embed; `next`: names of #include_next and
    `__has_include_next`; `comments_talk`: it switches a warning about comments on; `pieces`: words of code that may be
    put together to names (`token_pasting`); `places`/`macro_places`: names that stand for the path of a file, all of
    them and those in macros. These three are not looked for in headers that are known (`standard`). `shown`: see there.
    `unclear`: why its names of headers are not all there are; empty if they are. `compares_times`: it asks which of two
    files is newer. `expands_pragmas`: may a macro stand in a pragma of its own? (It is silent about _Pragma.)"""

    quoted: frozenset[str]
    angled: frozenset[str]
    includes_computed: bool
    asks_computed: bool
    time_macros: frozenset[str]
    assembler_files: bool
    embeds: bool
    next: frozenset[str] = frozenset()
    comments_talk: bool = False
    pieces: frozenset[str] = frozenset()
    places: frozenset[str] = frozenset()
    macro_places: frozenset[str] = frozenset()
    shown: frozenset[str] = frozenset()
    unclear: str = ""
    compares_times: bool = False
    expands_pragmas: bool = False


@dataclass(frozen=True)
class Scanned:
    """`own`: it was scanned as a header that is known (`standard`)."""

    status: Status
    own: bool
    digest: str
    scan: Scan


class Scans:
    """`load` gives the record of a key, None if there is none; `store` keeps one."""

    def __init__(self, load: Callable[[str], bytes | None], store: Callable[[str, bytes], None]) -> None:
        self._load = load
        self._store = store
        self._directories: dict[str, dict[str, Scanned]] = {}
        self._new: set[str] = set()
        self._lock = threading.Lock()

    def get(self, path: str, status: Status, *, own: bool) -> Scanned | None:
        """`path` is absolute."""
        directory, name = os.path.split(path)
        with self._lock:
            known = self._directory(directory).get(name)
        return known if known and known.status == status and known.own == own else None

    def put(self, path: str, scanned: Scanned) -> None:
        directory, name = os.path.split(path)
        with self._lock:
            self._directory(directory)[name] = scanned
            self._new.add(directory)

    def save(self) -> None:
        """Keep what is new. Another process may keep less at the same time, and win: only speed is lost."""
        with self._lock:
            new, self._new = sorted(self._new), set()
            for directory in new:
                files = self._directories[directory]
                if len(files) <= _MOST_FILES:
                    self._store(_key(directory), _pack(files))

    def _directory(self, directory: str) -> dict[str, Scanned]:
        if directory not in self._directories:
            packed = self._load(_key(directory))
            self._directories[directory] = _unpack(packed) if packed else {}
        return self._directories[directory]


def _key(directory: str) -> str:
    return make_key("scans", [("format", _FORMAT), ("directory", directory)]).digest


def _pack(files: dict[str, Scanned]) -> bytes:
    return pack_json({name: [file.status, file.own, file.digest, _fields(file.scan)] for name, file in files.items()})


def _unpack(packed: bytes) -> dict[str, Scanned]:
    try:
        return {
            name: Scanned(tuple(status), own, digest, _scan(fields))
            for name, (status, own, digest, fields) in unpack_json(packed).items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}  # not a record of this format: all is read anew


def _fields(scan: Scan) -> list[object]:
    return [sorted(value) if isinstance(value, frozenset) else value for value in vars(scan).values()]


def _scan(fields: list[Any]) -> Scan:
    values: list[Any] = [frozenset(value) if isinstance(value, list) else value for value in fields]
    return Scan(*values)
