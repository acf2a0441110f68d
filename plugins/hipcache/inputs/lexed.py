"""A text as the lexer sees it: by the native one, or where that is not there by the one in Python.

A large text is lexed beside the main thread, which hears signals meanwhile.
"""

from __future__ import annotations

from hipcache import native
from hipcache.inputs import lexer, lexer_span, vocabulary
from hipcache.native import Lexed, aside

ALL, BARE, RAW = lexer_span.ALL, lexer_span.BARE, lexer_span.RAW


def lex(content: bytes, asked: int = 0) -> Lexed:
    """`asked`: of ALL, BARE and RAW."""
    found = aside.run(lambda: native.lex(content, vocabulary.TABLE, asked), size=len(content))
    return found or lex_in_python(content, asked)


def lex_in_python(content: bytes, asked: int = 0) -> Lexed:
    one = lexer.Lexer(content, vocabulary.BITS, vocabulary.PATTERNS, asked)
    one.run()
    return Lexed(bytes(one.bare), bytes(one.lines), bytes(one.strings), bytes(one.words), one.flags, 0)
