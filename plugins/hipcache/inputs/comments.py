"""The text of a C++ file without its comments, where an edit of a comment cannot change what a pass makes.

Comments are blanked, not cut: every token keeps its line and column. Blanks at the ends of lines and of the file go.
So two texts that come out the same differ only in comments behind or between the same tokens at the same places.

A file in which it is not plain what is a comment gives None, and is compared as it stands; so does one whose
comments clang may have something to say about (-Wcomment, -Winvalid-utf8).

Lexical rules: ISO C++ [lex.phases], [lex.comment], [lex.ppnumber], [lex.string].
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    rb"""
    (?P<line> //[^\n]*)
  | (?P<block> /\*.*?\*/)
  | (?P<open> /\*)
  | (?:u8|[uUL])?R"(?P<delimiter>[^ ()\\\t\v\f\n"]{0,16})\(.*?\)(?P=delimiter)"
  | (?P<raw> (?:u8|[uUL])?R")
  | [A-Za-z_\x80-\xff][\w\x80-\xff]*
  | \.?[0-9](?:'?[\w.]|[eEpP][+-])*
  | (?P<text> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)+')
  | (?P<quote> ["'])
  | [^/"'A-Za-z_0-9.\x80-\xff]+
  | .
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENTS = ("line", "block")
_LITERALS = ("text", "delimiter")
_ENDLESS = ("open", "raw", "quote")
_UNCLEAR = re.compile(
    # A comment mark that a line break or a trigraph hides; a header's name that looks like a comment.
    rb"/\\\r?\n|\?\?/|\\[ \t]+\r?\n|include[^\n]*<[^>\n]*/[/*]|\r(?!\n)|\f|\v"
)
# At the start of a line that no backslash joins to the one before.
_INCLUDE = re.compile(rb"(?:\A|(?<!\\)(?<!\\\r)\n)[ \t]*#[ \t]*include(?:_next)?\b")
_NOT_NEWLINE = re.compile(rb"[^\n]")
_BEFORE_LINE_END = re.compile(rb"[ \t\r]+$", re.MULTILINE)


def without_comments(content: bytes) -> bytes | None:
    """The content with comments blanked, or None where it must be taken as it is."""
    pieces: list[bytes] = []
    try:
        for kind, text in _tokens(content):
            pieces.append(_blank(text, pieces) if kind in _COMMENTS else text)
    except _Unclear:
        return None
    return _BEFORE_LINE_END.sub(b"", b"".join(pieces)).rstrip(b"\n")


def code(content: bytes) -> bytes | None:
    """The words of a text that macros may put together: all but those in comments and literals, and the names of
    #include directives. None where it is not plain which these are."""
    parts: list[bytes] = []
    try:
        for kind, text in _tokens(content):
            # A comment counts as one blank, wherever it ends [lex.phases]; a directive has no literal before it.
            parts.append(b" " if kind in _COMMENTS else b'""' if kind in _LITERALS else text)
    except _Unclear:
        return None
    return _INCLUDE.sub(b"\n", b"".join(parts))


class _Unclear(Exception):
    """It is not plain what is a comment, or clang may have something to say about one."""


def _tokens(content: bytes) -> Iterator[tuple[str | None, bytes]]:
    """Each token with the name of its kind; together they are the content. Raises _Unclear."""
    if _UNCLEAR.search(content):
        raise _Unclear
    for token in _TOKEN.finditer(content):
        kind, text = token.lastgroup, token.group()
        # A comment or a raw string that does not end, an apostrophe in text that is skipped; a comment that goes on.
        if kind in _ENDLESS or (kind == "line" and text.endswith((b"\\", b"\\\r"))):
            raise _Unclear
        yield kind, text


def _blank(comment: bytes, before: list[bytes]) -> bytes:
    """What stands for a comment behind the pieces `before`. Raises _Unclear."""
    body = comment[2:-2] if comment.startswith(b"/*") else comment[2:]
    if b"/*" in body or body.endswith((b"\\", b"\\\r")) or b"??" in body:
        raise _Unclear
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Unclear from error
    last = before[-1][-1:] if before else b""
    if last == b"\\" or (last in b" \t" and b"".join(before[-2:]).rstrip(b" \t").endswith(b"\\")):
        raise _Unclear  # a backslash that would be at the end of its line
    # A line break in a comment does not end a directive: it is not the same as one between tokens.
    return _NOT_NEWLINE.sub(b" ", comment).replace(b"\n", b"\0\n")
