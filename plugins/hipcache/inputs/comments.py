"""The text of a C++ file without its comments, where an edit of a comment cannot change what a pass makes.

Comments are blanked, not cut: every token keeps its line and column. Blanks at the ends of lines and of the file go.
So two texts that come out the same differ only in comments behind or between the same tokens at the same places.

A file in which it is not plain what is a comment gives None, and is compared as it stands; so does one whose
comments clang may have something to say about (-Wcomment, -Winvalid-utf8).

Lexical rules: ISO C++ [lex.phases], [lex.comment], [lex.ppnumber], [lex.string].
"""

from __future__ import annotations

import re

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
    if _UNCLEAR.search(content):
        return None
    pieces: list[bytes] = []
    for token in _TOKEN.finditer(content):
        kind, text = token.lastgroup, token.group()
        if kind in ("open", "raw", "quote"):
            return None  # a comment or a raw string that does not end, or an apostrophe in text that is skipped
        if kind not in ("line", "block"):
            pieces.append(text)
            continue
        body = text[2:-2] if kind == "block" else text[2:]
        if b"/*" in body or body.endswith((b"\\", b"\\\r")) or b"??" in body:
            return None
        try:
            body.decode("utf-8")
        except UnicodeDecodeError:
            return None
        before = pieces[-1][-1:] if pieces else b""
        if before == b"\\" or (before in b" \t" and b"".join(pieces[-2:]).rstrip(b" \t").endswith(b"\\")):
            return None  # a backslash that would be at the end of its line
        # A line break in a comment does not end a directive: it is not the same as one between tokens.
        pieces.append(_NOT_NEWLINE.sub(b" ", text).replace(b"\n", b"\0\n"))
    return _BEFORE_LINE_END.sub(b"", b"".join(pieces)).rstrip(b"\n")


def code(content: bytes) -> bytes | None:
    """The words of a text that macros may put together: all but those in comments and literals, and the names of
    #include directives. None where it is not plain which these are."""
    if _UNCLEAR.search(content):
        return None
    parts: list[bytes] = []
    for token in _TOKEN.finditer(content):
        kind, text = token.lastgroup, token.group()
        if kind in ("open", "raw", "quote") or (kind == "line" and text.endswith((b"\\", b"\\\r"))):
            return None
        # A comment counts as one blank, wherever it ends [lex.phases]; a directive has no literal before it.
        parts.append(b" " if kind in ("line", "block") else b'""' if kind in ("text", "delimiter") else text)
    return _INCLUDE.sub(b"\n", b"".join(parts))
