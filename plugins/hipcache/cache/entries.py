"""Entries of a manifest: the results of one command, each with the files that the pass read.

A record is a JSON list of entries, newest first. They have the same key, and different contents of files:

    {"reads": hash, "outputs": [hash], "passing": [hash], "text": str, "look": str, "seconds": s, "base": path,
     "cuid": str, "source": [hash, hash], "lines": [path] or null, "macros": [str], "unused": [str],
     "places": [[path, line, rank, hash]] or null}

A record that cannot be parsed is a miss.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hipcache.base.values import dataclass
from hipcache.cache.content import duration
from hipcache.inputs.readset import MessageLine

if TYPE_CHECKING:
    from hipcache.cache.content import Shelf

# One command may have so many versions of its headers: several branches, and the state before an edit.
MOST = 16
# Fields that a record calls by another name.
_NAMES = {"message_format": "look"}


@dataclass(frozen=True)
class Entry:
    """One run of a pass over the source.

    `reads`: of the read set; `outputs`: of contents in the store, empty for what the pass has not written; `passing`:
    of outputs that are not stored; `text`: all that the pass printed, in that `message_format` ("look" in the record).
    `base`: the HIPCACHE_BASEDIR that the output or the text names, so that it holds there alone; empty if it names
    none.
    `cuid`: under a key for every spelling or for every value of macros, which do not count the CUID, the one that the
    output has in it, empty if it would be the same with another one; under all others empty.
    `source`: the source's `digest` and `code` in the read set, which need not be read where they differ.
    `lines`: the files whose numbers of lines may be in the output (`preprocessed.numbered`), None if nobody has asked;
    `macros`: under a key for every value of macros (`edits`), those of the command; `unused`: names of some that the
    preprocessor does not meet. `places`: the lines that the text
    names, None if each byte of the files counts for it (`messages`)."""

    reads: str
    outputs: tuple[str, ...]
    passing: tuple[str, ...]
    text: str
    message_format: str
    seconds: float
    base: str = ""
    cuid: str = ""
    source: tuple[str, str] = ("", "")
    lines: tuple[str, ...] | None = None
    macros: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    places: tuple[MessageLine, ...] | None = None


def with_newest(entry: Entry, older: Iterable[Entry]) -> list[Entry]:
    """The entry, followed by the entries that it does not replace."""
    return [entry, *(old for old in older if _kind(old) != _kind(entry))]


def _kind(entry: Entry) -> tuple[object, ...]:
    return entry.reads, entry.message_format, entry.base, entry.cuid, entry.macros


def pack(entries: Sequence[Entry]) -> bytes:
    rows = [{_NAMES.get(name, name): value for name, value in vars(entry).items()} for entry in entries[:MOST]]
    return json.dumps(rows, separators=(",", ":")).encode()


def unpack(raw: bytes | None) -> list[Entry]:
    try:
        entries = json.loads(raw) if raw else []
        return [_entry(**entry) for entry in entries]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []


def _entry(
    outputs: list[str],
    passing: list[str],
    look: str,
    seconds: object,
    source: Sequence[str] = ("", ""),
    lines: Sequence[str] | None = None,
    macros: Sequence[str] = (),
    unused: Sequence[str] = (),
    places: list[Any] | None = None,
    **more: Any,
) -> Entry:
    content, code = map(str, source)
    return Entry(
        outputs=tuple(outputs),
        passing=tuple(passing),
        message_format=look,
        seconds=duration(seconds),
        source=(content, code),
        lines=None if lines is None else tuple(map(str, lines)),
        macros=tuple(map(str, macros)),
        unused=tuple(map(str, unused)),
        places=None
        if places is None
        else tuple(MessageLine(str(path), int(line), int(rank), str(digest)) for path, line, rank, digest in places),
        **more,
    )


def put(shelf: Shelf, key: str, entry: Entry) -> None:
    """Put the entry before the existing ones under the key."""
    older = unpack(shelf.actions.get([key]).get(key))
    shelf.put(key, pack(with_newest(entry, older)))
