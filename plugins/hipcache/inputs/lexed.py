"""A text as the lexer sees it (`native/lexer.c`). A large one is lexed beside the main thread, which hears signals
meanwhile."""

from __future__ import annotations

from hipcache import native, shared
from hipcache.inputs import vocabulary
from hipcache.native import Lexed, aside

ALL, BARE, RAW = shared.LEXER_ALL, shared.LEXER_BARE, shared.LEXER_RAW


def lex(content: bytes, asked: int = 0) -> Lexed:
    """`asked`: of ALL, BARE and RAW."""
    return aside.run(lambda: native.lex(content, vocabulary.TABLE, asked), size=len(content))
