"""Names in a text that may show how a path is spelled, in what comes of the text.

More than `pasted.PLACES`, and looked for in every header: which of them matter is for `place.shows` to say.
`__FILE_NAME__` is left out: it is without its directory.
"""

from __future__ import annotations

from collections.abc import Collection

from hipcache.inputs import pasted

# Of a file; of a type without a name, which clang calls by its place (`(lambda at x.hip:3:4)`); annotations hold both.
PATHS = frozenset(
    [
        *(*pasted.PLACES, "__builtin_FILE", "source_location", "__builtin_source_location"),
        *("__FUNCSIG__", "__builtin_FUNCSIG", "__builtin_dump_struct"),
        *("__builtin_unique_stable_name", "__builtin_sycl_unique_stable_name"),
    ]
)
ANNOTATE = "annotate"
# assert() of libc, and whatever libstdc++ checks with: macros that show the path of the file that uses them.
ASSERT, ASSERT_IN_MACRO, UNDEFINES_NDEBUG, LIBSTDCXX = "assert", "assert in a macro", "#undef NDEBUG", "__glibcxx"

ANNOTATES = frozenset(f"{a}annotate{b}{c}" for a in ("", "__") for b in ("", "_type") for c in ("", "__"))
ASSERTS = frozenset(["assert", "assert_perror"])


def names(
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
