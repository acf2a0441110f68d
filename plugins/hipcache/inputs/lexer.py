"""A text as the lexer sees it (`native/lexer/lexer.c`), and the words that it looks for.

Among these are names that may show how a path is spelled, in what comes of the text (PATHS and those behind it): more
than `token_pasting.PLACES`, and looked for in every header. Which of them matter is for `place.shows` to say.
`__FILE_NAME__` is left out: it is without its directory.

A large text is lexed beside the main thread, which hears signals meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection

from hipcache.base import interruptible, native, shared
from hipcache.base.native import Lexed
from hipcache.base.shared import WORD_IN_LINES, WORD_KNOWN, WORD_NAMES
from hipcache.inputs import token_pasting

ALL, BARE, RAW = shared.LEXER_ALL, shared.LEXER_BARE, shared.LEXER_RAW

# Of a file; of a type without a name, which clang calls by its place (`(lambda at x.hip:3:4)`); annotations hold both.
PATHS = frozenset(
    [
        *(*token_pasting.PLACES, "__builtin_FILE", "source_location", "__builtin_source_location"),
        *("__FUNCSIG__", "__builtin_FUNCSIG", "__builtin_dump_struct"),
        *("__builtin_unique_stable_name", "__builtin_sycl_unique_stable_name"),
    ]
)
ANNOTATE = "annotate"
# assert() of libc, and whatever libstdc++ checks with: macros that show the path of the file that uses them.
ASSERT, ASSERT_IN_MACRO, UNDEFINES_NDEBUG, LIBSTDCXX = "assert", "assert in a macro", "#undef NDEBUG", "__glibcxx"

ANNOTATES = frozenset(f"{a}annotate{b}{c}" for a in ("", "__") for b in ("", "_type") for c in ("", "__"))
ASSERTS = frozenset(["assert", "assert_perror"])

# Behind these a header's name may come.
_HEADERS = frozenset([*token_pasting.QUESTIONS, "dependency", "include_alias"])
# Warnings are switched by them.
_SWITCHES = (token_pasting.SWITCH, *token_pasting.SWITCHED_OFF)
_MACROS = ("push_macro", "pop_macro", "NDEBUG", "pragma", *_SWITCHES)
_IN_LINES = frozenset([*_HEADERS, *token_pasting.PLACES, *token_pasting.MORE_PLACES, *ASSERTS, *_MACROS])
_WORDS = frozenset([*token_pasting.PIECES, *token_pasting.TIMES, *PATHS, *ANNOTATES, "GCC", "incbin", *_IN_LINES])


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
    return interruptible.run(lambda: native.lex(content, TABLE, asked), size=len(content))


def names_of_paths(
    words: Collection[str], macros: Collection[str], *, paths: Collection[str], undefines: bool
) -> frozenset[str]:
    """Those of PATHS, and the others above. `words`: of the code; `macros`: those in #define; `paths`: of PATHS;
    `undefines`: does the text take NDEBUG back?"""
    found = set(paths)
    if any(word.startswith(("__glibcxx_", "_GLIBCXX_")) for word in words):
        found.add(LIBSTDCXX)
    if not ANNOTATES.isdisjoint(words):
        found.add(ANNOTATE)
    if any(map(_asserts, words)):
        found.add(ASSERT)
    if any(map(_asserts, macros)):
        found.add(ASSERT_IN_MACRO)
    if undefines:
        found.add(UNDEFINES_NDEBUG)
    return frozenset(found)


def _asserts(word: str) -> bool:
    return word in ASSERTS or word.startswith("__ASSERT_")
