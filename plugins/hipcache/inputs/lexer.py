"""A text as the lexer sees it (`native/lexer.c`), and the words that it looks for.

A large text is lexed beside the main thread, which hears signals meanwhile.
"""

from __future__ import annotations

from hipcache import native
from hipcache.base import shared
from hipcache.base.shared import WORD_IN_LINES, WORD_KNOWN, WORD_NAMES
from hipcache.inputs import pasted, shown
from hipcache.native import Lexed, aside

ALL, BARE, RAW = shared.LEXER_ALL, shared.LEXER_BARE, shared.LEXER_RAW

# Behind these a header's name may come.
_HEADERS = frozenset([*pasted.QUESTIONS, "dependency", "include_alias"])
# Warnings are switched by them, or by what they are given.
_SWITCHES = ("diagnostic", "warning", "error", "fatal", "GCC")
_MACROS = ("push_macro", "pop_macro", "NDEBUG", "diagnostic")
_IN_LINES = frozenset([*_HEADERS, *pasted.PLACES, *pasted.MORE_PLACES, *shown.ASSERTS, *_MACROS])
_WORDS = frozenset(
    [
        *(*pasted.PIECES, *pasted.TIMES, *shown.PATHS, *shown.ANNOTATES, *_SWITCHES, "incbin"),
        *_IN_LINES,
    ]
)


def _bits(word: str) -> int:
    return WORD_KNOWN | (WORD_IN_LINES if word in _IN_LINES else 0) | (WORD_NAMES if word in _HEADERS else 0)


# (beginning, part that the word holds, bits)
_PATTERNS = tuple(
    (begin, inner, WORD_KNOWN | (WORD_IN_LINES if begin == b"__ASSERT_" else 0))
    for begin, inner in (
        (b"__ASSERT_", b""),
        (b"__glibcxx_", b""),
        (b"_GLIBCXX_", b"ASSERT"),
        (b"_GLIBCXX_", b"DEBUG"),
        (b"__builtin_FILE", b""),
    )
)
TABLE = b"\n".join(
    [
        *(b"%d%b" % (_bits(word), word.encode()) for word in sorted(_WORDS)),
        *(b"%d%b*%b" % (bits, begin, inner) for begin, inner, bits in _PATTERNS),
    ]
)


def lex(content: bytes, asked: int = 0) -> Lexed:
    """`asked`: of ALL, BARE and RAW."""
    return aside.run(lambda: native.lex(content, TABLE, asked), size=len(content))
