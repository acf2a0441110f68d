"""The outline of a file: its text without comments, without the lines that have no text, and without the values of its
plain macros. Two texts with one outline and the same values give the compiler the same tokens in the same columns, in
other lines.

So a pass makes the same of them if nothing in its output or messages comes from the numbers of these lines; and if the
values differ, it makes the same where nobody uses these macros. Only the preprocessor knows that (`cache/edits`).
"""

from __future__ import annotations

from typing import NamedTuple

from hipcache.inputs import comments, preprocessed
from hipcache.inputs.keys import digest_bytes
from hipcache.inputs.readset import ReadFile, ReadSet, alike, is_as_it_was
from hipcache.inputs.trace import Files, Untraceable
from hipcache.patterns import pattern
from hipcache.values import replace

_BREAK = pattern(rb"(?m)^\0\n")
# Its lines may look like directives.
_RAW_STRING = pattern(rb"R[\\\s]*\"")
# (the directive without its value, its value)
_VALUE = pattern(
    rb"(?m)^(?<!\\\n)(?<!\\\r\n)([ \t]*#[ \t]*define[ \t]+[A-Za-z_]\w*[ \t]+)(?=[^\n\\\0]+$)((?:%b)+\r?)$"
    % preprocessed.SIMPLE.encode()
)
# It may stand at the very beginning alone.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CUT = b"\0value"
# Digits of a value's digest: only edits of one file are compared.
_DIGITS = 16
# A list of registers or error codes is no version header.
_MOST_VALUES = 100


class Outline(NamedTuple):
    """`code`: the text, with a mark for each value; `values`: of the plain macros (`#define NAME value`), in order."""

    code: bytes
    values: tuple[bytes, ...]


def read(content: bytes) -> Outline | None:
    """None if the text must be taken as it is."""
    text = comments.blanked(content)
    if text is None or _BYTE_ORDER_MARK in content:
        return None
    code = _BREAK.sub(b"", text.replace(comments.EMPTY, b""))
    values = () if _RAW_STRING.search(code) else tuple(found[2] for found in _VALUE.finditer(code))
    if not values or len(values) > _MOST_VALUES:
        return Outline(code, ())
    return Outline(_VALUE.sub(rb"\1" + _CUT, code), values)


class Lines(NamedTuple):
    """The lines of a text, counted from 0: the `numbers` of those in its outline, their `ranks` by number, and all
    `texts`."""

    numbers: list[int]
    ranks: dict[int, int]
    texts: list[bytes]


def lines(content: bytes) -> Lines | None:
    """Of a text that has an outline."""
    text = comments.blanked(content)
    if text is None:
        return None
    numbers = [number for number, line in enumerate(text.split(b"\n")) if line not in (b"\0", comments.EMPTY[:-1])]
    return Lines(numbers, {number: rank for rank, number in enumerate(numbers)}, content.split(b"\n"))


def digests(files: Files, path: str, digest: str) -> tuple[str, tuple[str, ...]]:
    """`ReadFile.code` and `ReadFile.values` of the content with that digest. Raises OSError, Untraceable."""
    if digest not in files.outlines:  # most passes read the same
        found = read(files.content(path, digest))
        files.outlines[digest] = (digest_bytes(found.code), _values(found)) if found else ("", ())
    return files.outlines[digest]


def _values(outline: Outline) -> tuple[str, ...]:
    return tuple(digest_bytes(value)[:_DIGITS] for value in outline.values)


class Edit(NamedTuple):
    """What an edit has changed. `reads`: the read set after it; `lines`: the paths, as in the read set, of the files
    whose lines may have other numbers; `marked`: by path, of files in which plain macros have other values, a text with
    marks in their place (`preprocessed`)."""

    reads: ReadSet
    lines: frozenset[str]
    marked: dict[str, bytes]


def edit(files: Files, reads: ReadSet) -> Edit | None:
    """The edit that led from this read set to the files as they are; None if outlines do not tell it, or other inputs
    have changed."""
    now: list[ReadFile] = []
    marked: dict[str, bytes] = {}
    lines: set[str] = set()
    try:
        for file in reads.files:
            path = files.basedir.local(file.path)
            if is_as_it_was(files.resolve(path), file.status):
                now.append(file)
                continue
            status, digest = files.digest(path)
            if digest == file.digest:
                now.append(replace(file, status=files.lasting(status)))
                continue
            found = read(files.content(path, digest)) if file.code else None
            if found is None or digest_bytes(found.code) != file.code:
                return None
            values = _values(found)
            if len(values) != len(file.values):
                return None
            if values != file.values:
                marked[file.path] = _marked(found, [one != old for one, old in zip(values, file.values, strict=True)])
            lines.add(file.path)
            bare = files.bare(path, digest)
            now.append(ReadFile(file.path, digest, files.lasting(status), file.system, bare, file.code, values))
    except (OSError, Untraceable):
        return None
    after = replace(reads, files=tuple(now))
    if files.differs_now(after):
        return None
    return Edit(replace(after, alike=alike(now, files.identity_of)), frozenset(lines), marked)


def _marked(found: Outline, differs: list[bool]) -> bytes:
    """The text with a mark for each value that differs: another one for each, since two of one macro may differ."""
    values = [
        preprocessed.mark(str(number)).encode() if differs[number] else value
        for number, value in enumerate(found.values)
    ]
    parts = found.code.split(_CUT)
    text = b"".join(part + value for part, value in zip(parts, [*values, b""], strict=True))
    return preprocessed.WITNESS + text.replace(b"\0\n", b" ")
