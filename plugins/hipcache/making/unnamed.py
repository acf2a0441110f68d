"""Does an output name a type without a name? Clang calls it by the place where it stands: `(lambda at x.hip:3:4)`.

Such a name gets into strings by `__PRETTY_FUNCTION__`, also by that of a header's function whose template argument the
type is. In an object a string is a row of bytes. In bitcode it begins at any bit, and each character has 7 bits, or 8,
or twice 6 (LLVM Language Reference, "LLVM Bitcode File Format"; `CST_CODE_CSTRING`, fixed(7), or VBR6 where there is no
abbreviation). Characters of 6 bits have no blanks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hipcache import native

# clang/lib/AST/TypePrinter.cpp, `printTag`. An anonymous namespace may be taken for such a type.
_NAMES = (b"(lambda at ", b"(unnamed ", b"(anonymous ")
_WIDTHS: tuple[tuple[int, Callable[[int], int]], ...] = (
    (7, int),
    (8, int),
    (12, lambda char: (char & 31 | 32) | char >> 5 << 6),
)


def in_object(content: bytes) -> bool:
    return any(name in content for name in _NAMES)


def in_bitcode(content: bytes) -> bool:
    found = native.search_in(content, _BEGINNINGS)
    return any(row in content for row in _BEGINNINGS) if found is None else bool(found)


def shows(content: bytes, text: bytes) -> bool:
    """May bitcode have the text as a string?"""
    return any(row in content for row in rows([text]))


def rows(names: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes that lie whole within a name, for each width of a character and each bit of a byte where it begins."""
    for name in names:
        for width, encode in _WIDTHS:
            bits = sum(encode(char) << (width * number) for number, char in enumerate(name))
            for shift in range(8):
                end = shift + width * len(name)
                whole = (bits << shift).to_bytes(end // 8 + 1, "little")
                yield whole[bool(shift) : end // 8]


# Seven bytes or more: what is found by chance only costs a share.
_ROWS = tuple(rows(_NAMES))
_BEGINNINGS = sorted({row[: min(map(len, _ROWS))] for row in _ROWS})
