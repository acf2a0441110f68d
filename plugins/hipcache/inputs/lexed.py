"""A text as the lexer sees it: by the native one, or without it by the one in Python.

A large text is lexed beside the main thread, which hears signals meanwhile.
"""

from __future__ import annotations

from hipcache import native, shared
from hipcache.inputs import vocabulary
from hipcache.native import Lexed, aside

ALL, BARE, RAW = shared.LEXER_ALL, shared.LEXER_BARE, shared.LEXER_RAW


def lex(content: bytes, asked: int = 0) -> Lexed:
    """`asked`: of ALL, BARE and RAW."""
    found = aside.run(lambda: native.lex(content, vocabulary.TABLE, asked), size=len(content))
    return found or lex_in_python(content, asked)


def lex_in_python(content: bytes, asked: int = 0) -> Lexed:
    from hipcache.inputs import lexer  # a large one, which is seldom needed

    one = lexer.Lexer(content, vocabulary.BITS, vocabulary.PATTERNS, asked)
    one.run()
    return Lexed(bytes(one.bare), bytes(one.lines), bytes(one.strings), bytes(one.words), one.flags, 0)
