"""May a source and its headers name a GPU in a way that the text behind the preprocessor does not show?

Two passes whose texts are the same may differ where clang has looked at the name of its GPU (`__gfx1030__`,
`__amdgcn_processor__`). So these texts, which are no standard headers, may name GPUs in conditions alone, outside of
parentheses (tokens in the arguments of a macro all get the line of its name), and then none of them may set lines, or
push or pop what the text does not show. Names that are pasted from pieces count, too.

By the text alone, and rather too much than too little.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hipcache.patterns import pattern
from hipcache.planning.cxx_text import joined, without_comments, without_literals

_SPACE = rb"[ \t\f\v]*"
_BEGIN = rb"^" + _SPACE + rb"(?:#|%:|\?\?=)" + _SPACE
_DIRECTIVE = pattern(_BEGIN + rb"(\w*)[^\n]*", re.MULTILINE)
_CONDITIONS = (b"if", b"ifdef", b"ifndef", b"elif", b"elifdef", b"elifndef")
_INCLUDES = (b"include", b"include_next", b"import", b"embed")
# With pieces of names, of which ## may make one.
_NAMES = pattern(rb"gfx|amdgcn_(?:processor|target)|\b__(?:gf?|amdgcn\w*)?\b|\bf?x[0-9]\w*__\b")
# Last, a trigraph that joins lines.
_HIDES = pattern(_BEGIN + rb"(?:line\b|[0-9])|push_macro|pop_macro|unsafe_buffer_usage|\?\?/", re.MULTILINE)


def may_hide(texts: Sequence[bytes], macros: bytes) -> bool:
    """`texts`: the source and its headers, but for standard ones; `macros`: the command line's, as directives."""
    if _NAMES.search(macros):
        return True
    read = [without_comments(joined(text)) for text in texts]
    named = [text for text in read if _NAMES.search(text)]
    if not named:
        return False
    if any(_HIDES.search(text) for text in (macros, *read)):
        return True
    return any(map(_is_in_parentheses, read)) or any(map(_names_beside_conditions, named))


def may_hide_in_standard_header(text: bytes) -> bool:
    """The same of a standard header, by a shorter rule: these name GPUs as they must, and are known."""
    return bool(_NAMES.search(text) and _HIDES.search(text))


def _names_beside_conditions(text: bytes) -> bool:
    rest = _DIRECTIVE.sub(lambda found: b"" if found.group(1) in _CONDITIONS else found.group(), text)
    return bool(_NAMES.search(rest))


def _is_in_parentheses(text: bytes) -> bool:
    """Does a condition on a GPU, or another file, stand there?"""
    depth, place = 0, 0
    for found in _DIRECTIVE.finditer(text):
        code = without_literals(text[place : found.start()])
        depth, place = depth + code.count(b"(") - code.count(b")"), found.end()
        word = found.group(1)
        if depth and (word in _INCLUDES or (word in _CONDITIONS and _NAMES.search(found.group()))):
            return True
    return False
