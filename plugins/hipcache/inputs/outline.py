"""The outline of a file: its text without comments, without the lines that have no text, and without the values of its
plain macros. Two texts with one outline and the same values give the compiler the same tokens in the same columns, in
other lines.

So a pass makes the same of them if nothing in its output or messages comes from the numbers of these lines; and if the
values differ, it makes the same where nobody uses these macros. Only the preprocessor knows that (`cache/edits`).

Comments are blanked, not cut: every token keeps its column, and its line but for those without text. (A tab stays one:
clang tells of code that is indented by its columns.) Blanks at the ends of lines and of the file go, but for those in
raw strings. So two texts that come out the same differ only in comments behind or between the same tokens.

A file in which it is not plain what is a comment has no outline, and is compared as it stands; so does one whose
comments clang may have something to say about (-Wcomment), and one that numbers its lines itself
(#line), since messages give other places than it has.

Lexical rules: `native/lexer/lexer.c`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hipcache.base import interruptible
from hipcache.base.keys import digest_bytes
from hipcache.base.patterns import pattern
from hipcache.base.values import replace
from hipcache.inputs import lexer, preprocessed
from hipcache.inputs.file_manager import FileManager, Untraceable
from hipcache.inputs.readset import ReadFile, ReadSet, alike

# Splices and line breaks within comments (a NUL before them) may stand anywhere.
_GAP = rb"[\s\0\\]*"
_RENUMBERS = pattern(
    rb"(?:#|%" + _GAP + rb":)" + _GAP + rb"(?:[0-9]|" + _GAP.join((rb"l", rb"i", rb"n", rb"e")) + rb")"
)
_SEPARATED = pattern(rb"[0-9](?:[\w.\\\s\0]|[eEpP][+-])*'")
# Bytes that take some milliseconds.
_PORTION = 1 << 20
# The end of a line without text.
_EMPTY = b"\0\0\n"
_BREAK = pattern(rb"(?m)^\0\n")
# Its lines may look like directives.
_RAW_STRING = pattern(rb"R[\\\s]*\"")
# (the directive without its value, its value)
_VALUE = pattern(
    rb"(?m)^(?<!\\\n)(?<!\\\r\n)([ \t]*#[ \t]*define[ \t]+[A-Za-z_]\w*[ \t]+)(?=[^\n\\\0]+$)((?:%b)+\r?)$"
    % preprocessed.SIMPLE.encode()
)
# It may stand at the very beginning alone, so lines before it count.
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CUT = b"\0value"
# Digits of a value's digest: only edits of one file are compared.
_DIGITS = 16
# A list of registers or error codes is no version header.
_MOST_VALUES = 100


class Outline(NamedTuple):
    """`bare`: the text without comments, each line where it was; `code`: without lines that have no text, and with a
    mark for each value, None if these lines count; `values`: of the plain macros (`#define NAME value`), in order."""

    bare: bytes
    code: bytes | None
    values: tuple[bytes, ...]


def read(content: bytes) -> Outline | None:
    """None if the text must be taken as it is."""
    text = _blanked(content)
    if text is None:
        return None
    bare = text.replace(_EMPTY, b"\n")
    if _BYTE_ORDER_MARK in content:
        return Outline(bare, None, ())
    code = _BREAK.sub(b"", text.replace(_EMPTY, b""))
    values = () if _RAW_STRING.search(code) else tuple(found[2] for found in _VALUE.finditer(code))
    if not values or len(values) > _MOST_VALUES:
        return Outline(bare, code, ())
    return Outline(bare, _VALUE.sub(rb"\1" + _CUT, code), values)


def _blanked(content: bytes) -> bytes | None:
    """Without comments, where a line without text ends with _EMPTY, and a line break in a comment has a NUL before it;
    None as of `read`."""
    found = lexer.lex(content, lexer.BARE)
    return None if found.flags or renumbers(found.bare) else found.bare


def renumbers_lines(content: bytes) -> bool:
    """The same of a text that may have no outline."""
    return renumbers(content) and renumbers(lexer.lex(content, lexer.BARE).bare)


def separates_digits(content: bytes) -> bool:
    """Is there a number like 1'000, which the lexer knows? To C++11 a literal begins there, which has no end."""
    text = _blanked(content)
    return text is None or bool(_SEPARATED.search(text))


def renumbers(text: bytes) -> bool:
    """Does it give its lines other numbers, or another file's? (In portions: a signal is heard between two of them, see
    `interruptible`.)"""
    for begin in range(0, len(text), _PORTION):
        end = begin + _PORTION
        interruptible.go_on()
        last = max(text.rfind(b"#", begin, end), text.rfind(b"%", begin, end))
        # A match has one mark, its first: only that of the last one may go beyond the end.
        if _RENUMBERS.search(text, begin, end) or (last >= 0 and _RENUMBERS.match(text, last)):
            return True
    return False


class Lines(NamedTuple):
    """The lines of a text, counted from 0: the `numbers` of those in its outline, their `ranks` by number, and all
    `texts`."""

    numbers: list[int]
    ranks: dict[int, int]
    texts: list[bytes]

    def spliced(self, number: int) -> bytes:
        """The line as it stands, with those that it is spliced to, and with their ends: at the end of the text is
        another one than where something follows."""
        first = last = number
        while _is_spliced(self.texts, first - 1):
            first -= 1
        while _is_spliced(self.texts, last):
            last += 1
        found = b"\n".join(self.texts[first : last + 1])
        return found + b"\n" if last + 1 < len(self.texts) else b"last " + found


def _is_spliced(lines: Sequence[bytes], at: int) -> bool:
    """Does the line go on in the next one?"""
    return 0 <= at < len(lines) and lines[at].rstrip(b" \t\r\f\v").endswith(b"\\")


def lines(content: bytes) -> Lines | None:
    """Of a text that has an outline."""
    text = _blanked(content)
    if text is None:
        return None
    numbers = [number for number, line in enumerate(text.split(b"\n")) if line not in (b"\0", _EMPTY[:-1])]
    return Lines(numbers, {number: rank for rank, number in enumerate(numbers)}, content.split(b"\n"))


def digests(files: FileManager, path: str, digest: str) -> tuple[str, str, tuple[str, ...]]:
    """`bare`, `code` and `values` of `ReadFile`, for the content with that digest. Raises OSError, Untraceable."""
    if digest not in files.outlines:  # most passes read the same
        found = read(files.content(path, digest))
        files.outlines[digest] = _digests(found) if found else ("", "", ())
    return files.outlines[digest]


def _digests(found: Outline) -> tuple[str, str, tuple[str, ...]]:
    values = tuple(digest_bytes(value)[:_DIGITS] for value in found.values)
    return digest_bytes(found.bare), digest_bytes(found.code) if found.code is not None else "", values


class Edit(NamedTuple):
    """What an edit has changed. `reads`: the read set after it; by path, as in the read set: `files` with another
    content; `lines`: those of them whose lines may have other numbers; `marked`: of those in which plain macros have
    other values, a text with marks in their place (`preprocessed`)."""

    reads: ReadSet
    files: frozenset[str]
    lines: frozenset[str]
    marked: dict[str, bytes]


def edit(files: FileManager, reads: ReadSet) -> Edit | None:
    """The edit that led from this read set to the files as they are; None if outlines do not tell it, or other inputs
    have changed."""
    now: list[ReadFile] = []
    marked: dict[str, bytes] = {}
    edited: set[str] = set()
    moved: set[str] = set()
    try:
        changed = {file.path for file in files.changed(reads.files)}
        for file in reads.files:
            if file.path not in changed:
                now.append(file)
                continue
            path = files.basedir.local(file.path)
            status, digest = files.digest(path)
            if digest == file.digest:
                now.append(replace(file, status=files.lasting(status)))
                continue
            bare, code, values = digests(files, path, digest) if file.bare else ("", "", ())
            if not bare:
                return None
            edited.add(file.path)
            now.append(ReadFile(file.path, digest, files.lasting(status), file.system, bare, code, values))
            if bare == file.bare:
                continue
            if not code or code != file.code or len(values) != len(file.values):
                return None
            moved.add(file.path)
            if values != file.values:
                differs = [value != old for value, old in zip(values, file.values, strict=True)]
                marked[file.path] = _marked(files.content(path, digest), differs, len(marked))
    except (OSError, Untraceable):
        return None
    after = replace(reads, files=tuple(now))
    if files.others_differ(after):
        return None
    return Edit(replace(after, alike=alike(now, files.identity_of)), frozenset(edited), frozenset(moved), marked)


def _marked(content: bytes, differs: list[bool], file: int) -> bytes:
    """The text with a mark for each value that differs: another one for each, since two of one macro may differ, also
    in another `file` (its number)."""
    found = read(content)
    assert found
    assert found.code
    values = [
        preprocessed.mark(f"{file}.{number}").encode() if differs[number] else value
        for number, value in enumerate(found.values)
    ]
    parts = found.code.split(_CUT)
    text = b"".join(part + value for part, value in zip(parts, [*values, b""], strict=True))
    return preprocessed.WITNESS + text.replace(b"\0\n", b" ")
