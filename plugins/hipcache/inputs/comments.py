"""The text of a C++ file without its comments, where an edit of a comment cannot change what a pass makes.

Comments are blanked, not cut: every token keeps its line and column. (A tab stays one: clang tells of code that is
indented by its columns.) Blanks at the ends of lines and of the file go, but for those in raw strings.
So two texts that come out the same differ only in comments behind or between the same tokens at the same places.

A file in which it is not plain what is a comment gives None, and is compared as it stands; so does one whose
comments clang may have something to say about (-Wcomment, -Winvalid-utf8).

Lexical rules: `native/lexer.c`.
"""

from __future__ import annotations

from hipcache.inputs import lexed


def without_comments(content: bytes) -> bytes | None:
    """The content with comments blanked, or None where it must be taken as it is."""
    found = lexed.lex(content, lexed.BARE)
    return None if found.flags else found.bare
