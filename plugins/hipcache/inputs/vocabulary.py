"""The words that a scan looks for, as the table that the lexer takes (`native/lexer.c`)."""

from __future__ import annotations

from hipcache.inputs import pasted, shown
from hipcache.shared import WORD_IN_LINES, WORD_KNOWN, WORD_NAMES

# Behind these a header's name may come.
HEADERS = frozenset([*pasted.QUESTIONS, "dependency", "include_alias"])
# Warnings are switched by them, or by what they are given.
SWITCHES = ("diagnostic", "warning", "error", "fatal", "GCC")
_MACROS = ("push_macro", "pop_macro", "NDEBUG", "diagnostic")
_IN_LINES = frozenset([*HEADERS, *pasted.PLACES, *pasted.MORE_PLACES, *shown.ASSERTS, *_MACROS])
_WORDS = frozenset(
    [
        *(*pasted.PIECES, *pasted.TIMES, *shown.PATHS, *shown.ANNOTATES, *SWITCHES, "incbin"),
        *_IN_LINES,
    ]
)


def _bits(word: str) -> int:
    return WORD_KNOWN | (WORD_IN_LINES if word in _IN_LINES else 0) | (WORD_NAMES if word in HEADERS else 0)


BITS = {word.encode(): _bits(word) for word in _WORDS}
# (beginning, part that the word holds, bits)
PATTERNS = tuple(
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
        *(b"%d%b" % (bits, word) for word, bits in sorted(BITS.items())),
        *(b"%d%b*%b" % (bits, begin, inner) for begin, inner, bits in PATTERNS),
    ]
)
