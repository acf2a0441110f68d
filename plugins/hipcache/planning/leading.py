"""The includes at the head of a source, which a precompiled preamble may stand for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from hipcache.patterns import pattern
from hipcache.values import dataclass

# More leading includes than that are not told apart.
MOST_INCLUDES = 12

_BYTE_ORDER = b"\xef\xbb\xbf"
_BLANK = pattern(rb"[ \t]*\n")
_COMMENT = pattern(rb"[ \t]*(?://[^\n\\]*\n|/\*[^*\\?]*(?:\*(?!/)[^*\\?]*)*\*/[ \t]*\n)")
_INCLUDE = pattern(rb"[ \t]*#[ \t]*include[ \t]*(<[\w./+-]+>|\"[\w./+-]+\")[ \t]*(?://[^\n\\]*)?\n")
_NAME = pattern(rb"<[^>\n]+>|\"[^\"\n]+\"")
_ANY_INCLUDE = pattern(rb"^[ \t]*#[ \t]*(?:include|include_next|import)\b[ \t]*([^\n]*)", re.MULTILINE)
_ODD = pattern(rb"\?\?|[^/]/\*|[\x00-\x08\x0b-\x1f\x7f]")
# So many sources of a directory are looked at, and so many bytes of each.
_BESIDE = 64
_HEAD = 4096


@dataclass(frozen=True)
class Leading:
    """Includes at the head of a source: their names, in angles or quotes, and where each ends, in bytes."""

    names: tuple[str, ...]
    ends: tuple[int, ...]


def of(text: bytes) -> Leading:
    """None of a text with a byte-order mark: patterns for lines would not see the first one."""
    names: list[str] = []
    ends: list[int] = []
    at = 0
    while not text.startswith(_BYTE_ORDER) and len(names) < MOST_INCLUDES:
        include = _INCLUDE.match(text, at)
        found = include or _BLANK.match(text, at) or _COMMENT.match(text, at)
        if not found or not _is_mere_text(found.group()):
            break
        at = found.end()
        if include:
            names.append(include.group(1).decode())
            ends.append(at)
    return Leading(tuple(names), tuple(ends))


def included(text: bytes) -> Iterator[str]:
    """The names, in angles or quotes, of all includes in the text, also of those that a condition may leave out; empty
    for a name that is computed."""
    for include in _ANY_INCLUDE.finditer(text):
        named = _NAME.match(include.group(1))
        yield named.group().decode(errors="replace") if named else ""


def beside(source: str) -> Iterator[tuple[str, ...]]:
    """The leading includes of other sources in its directory, of the same kind: of as many as can be read in 2 ms."""
    directory, kind = os.path.dirname(source), os.path.splitext(source)[1]
    with suppress(OSError), os.scandir(directory) as entries:
        others = (one for one in entries if one.name.endswith(kind) and one.path != source and one.is_file())
        for entry in islice(others, _BESIDE):
            with suppress(OSError), open(entry.path, "rb") as file:
                yield of(file.read(_HEAD)).names


def _is_mere_text(part: bytes) -> bool:
    try:
        part.decode()
    except UnicodeError:
        return False
    return not _ODD.search(part.lstrip())
