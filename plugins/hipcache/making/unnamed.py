"""Does an output name a type without a name? Clang calls it by the place where it stands: `(lambda at x.hip:3:4)`.

Such a name gets into strings by `__PRETTY_FUNCTION__`, also by that of a header's function whose template argument the
type is. In an object a string is a row of bytes, in bitcode one of bits (`bit_strings`). Characters of 6 bits have no
blanks.
"""

from __future__ import annotations

from hipcache import native
from hipcache.inputs.bit_strings import rows

# clang/lib/AST/TypePrinter.cpp, `printTag`. An anonymous namespace may be taken for such a type.
_NAMES = (b"(lambda at ", b"(unnamed ", b"(anonymous ")


def in_object(content: bytes) -> bool:
    return any(name in content for name in _NAMES)


def in_bitcode(content: bytes) -> bool:
    return bool(native.search_in(content, _BEGINNINGS))


def shows(content: bytes, text: bytes) -> bool:
    """May bitcode have the text as a string?"""
    return any(row in content for row in rows([text]))


# Seven bytes or more: what is found by chance only costs a share.
_ROWS = tuple(rows(_NAMES))
_BEGINNINGS = sorted({row[: min(map(len, _ROWS))] for row in _ROWS})
