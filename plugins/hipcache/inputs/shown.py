"""Names in a text that may show how a path is spelled, in what comes of the text.

More than `pasted.PLACES`, and looked for in every header: which of them matter is for `place.shows` to say.
Comments do not count where it is plain what is one. `__FILE_NAME__` is left out: it is without its directory.
"""

from __future__ import annotations

import re

from hipcache.inputs import comments, pasted

# Of a file; of a type without a name, which clang calls by its place (`(lambda at x.hip:3:4)`); annotations hold both.
PATHS = frozenset(
    [
        *(*pasted.PLACES, "__builtin_FILE", "source_location"),
        *("__FUNCSIG__", "__builtin_FUNCSIG", "__builtin_dump_struct", "unique_stable_name"),
    ]
)
ANNOTATE = "annotate"
# assert() of libc, and whatever libstdc++ checks with: macros that show the path of the file that uses them.
ASSERT, ASSERT_IN_MACRO, UNDEFINES_NDEBUG, LIBSTDCXX = "assert", "assert in a macro", "#undef NDEBUG", "__glibcxx"

_ANNOTATE = re.compile(rb"(?<!\w)(?:__)?annotate(?:_type)?(?:__)?(?!\w)")
_ASSERT = re.compile(rb"(?<!\w)(?:assert|assert_perror|__ASSERT_\w+)(?!\w)")
_DEFINE = re.compile(rb"(?:#|%:|\?\?=)[^\n]*define(?:\\[ \t]*\r?\n|[^\n])*")
_UNDEFINE = re.compile(rb"(?:undef|pop_macro|push_macro)[^\n]*NDEBUG")
_LIBSTDCXX = re.compile(rb"_GLIBCXX_\w*(?:ASSERT|DEBUG)")


def names(content: bytes) -> frozenset[str]:
    """Those of PATHS, and the others above, in a text whose words stand on one line each."""
    checks = b"__glibcxx_" in content or (b"_GLIBCXX_" in content and _LIBSTDCXX.search(content))
    libstdcxx = frozenset([LIBSTDCXX]) if checks else frozenset()
    # To tell comments apart takes far longer than to see that none of the names is there.
    asserts = b"assert" in content.replace(b"static_assert", b"") or b"__ASSERT_" in content
    annotates = b"annotate" in content and _ANNOTATE.search(content)
    if not (asserts and _ASSERT.search(content)) and not (annotates or b"NDEBUG" in content or _paths(content)):
        return libstdcxx
    bare = comments.without_comments(content)
    # A comment over several lines does not end a directive (see `comments`).
    text = content if bare is None else bare.replace(b"\0\n", b" ")
    found = _paths(text)
    if _ANNOTATE.search(text):
        found.add(ANNOTATE)
    if _ASSERT.search(text):
        found.add(ASSERT)
        if any(_ASSERT.search(line) for line in _DEFINE.findall(text)):
            found.add(ASSERT_IN_MACRO)
    if _UNDEFINE.search(text):
        found.add(UNDEFINES_NDEBUG)
    return libstdcxx | found


def _paths(text: bytes) -> set[str]:
    return {name for name in PATHS if name.encode() in text}
