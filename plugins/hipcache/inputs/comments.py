"""The text of a C++ file without its comments, where an edit of a comment cannot change what a pass makes.

Comments are blanked, not cut: every token keeps its line and column. (A tab stays one: clang tells of code that is
indented by its columns.) Blanks at the ends of lines and of the file go, but for those in raw strings.
So two texts that come out the same differ only in comments behind or between the same tokens at the same places.

A file in which it is not plain what is a comment gives None, and is compared as it stands; so does one whose
comments clang may have something to say about (-Wcomment, -Winvalid-utf8), and one that numbers its lines itself
(#line), since messages that quote it (`quoted`) give other places than it has.

Lexical rules: `native/lexer.c`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from hipcache.inputs import lexer
from hipcache.native import aside
from hipcache.patterns import pattern

# Splices and line breaks within comments (a NUL before them) may stand anywhere.
_GAP = rb"[\s\0\\]*"
_RENUMBERS = pattern(rb"(?:#|%:)" + _GAP + rb"(?:[0-9]|" + _GAP.join((rb"l", rb"i", rb"n", rb"e")) + rb")")
# Bytes that take some milliseconds.
_PORTION = 1 << 20
# The end of a line without text.
EMPTY = b"\0\0\n"


def without_comments(content: bytes, kept: Collection[int] = ()) -> bytes | None:
    """The content with comments blanked, or None if it must be taken as it is. `kept`: lines (from 1) whose text
    follows as it stands, each with its end and with the lines that it is spliced to."""
    text = blanked(content)
    if text is None:
        return None
    return text.replace(EMPTY, b"\n") + (_as_they_stand(_lines(content), kept) if kept else b"")


def blanked(content: bytes) -> bytes | None:
    """The same, where a line without text ends with EMPTY, and a line break in a comment has a NUL before it."""
    found = lexer.lex(content, lexer.BARE)
    return None if found.flags or _renumbers(found.bare) else found.bare


def _renumbers(text: bytes) -> bool:
    """In portions: a signal is heard between two of them (see `aside`)."""
    for begin in range(0, len(text), _PORTION):
        end = begin + _PORTION
        aside.go_on()
        last = max(text.rfind(b"#", begin, end), text.rfind(b"%:", begin, end + 1))
        # A match has one mark, its first: only that of the last one may go beyond the end.
        if _RENUMBERS.search(text, begin, end) or (last >= 0 and _RENUMBERS.match(text, last)):
            return True
    return False


def _lines(content: bytes) -> list[bytes]:
    """The same as `content.split(b"\\n")`, in portions."""
    found: list[bytes] = []
    begin = 0
    while begin <= len(content):
        end = content.find(b"\n", begin + _PORTION)
        end = len(content) if end < 0 else end
        aside.go_on()
        found += content[begin:end].split(b"\n")
        begin = end + 1
    return found


def _as_they_stand(lines: Sequence[bytes], kept: Iterable[int]) -> bytes:
    shown: set[int] = set()
    for number in kept:
        first = last = number - 1
        while _is_spliced(lines, first - 1):
            first -= 1
        while _is_spliced(lines, last):
            last += 1
        shown.update(range(first, last + 1))
    return b"".join(b"\0%d:%b" % (at, _line(lines, at)) for at in sorted(shown))


def spliced(lines: Sequence[bytes], at: int) -> bytes:
    """The line at that index, with those that it is spliced to."""
    first = last = at
    while _is_spliced(lines, first - 1):
        first -= 1
    while _is_spliced(lines, last):
        last += 1
    return b"\n".join(lines[first : last + 1])


def _line(lines: Sequence[bytes], at: int) -> bytes:
    if not 0 <= at < len(lines):
        return b"none"  # which no line is: it would have an end
    return lines[at] + b"\n" if at + 1 < len(lines) else b"last " + lines[at]


def _is_spliced(lines: Sequence[bytes], at: int) -> bool:
    """Does the line go on in the next one?"""
    return 0 <= at < len(lines) and lines[at].rstrip(b" \t\r\f\v").endswith(b"\\")
