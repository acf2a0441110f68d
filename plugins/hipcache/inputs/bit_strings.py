"""How a text stands in bitcode: it begins at any bit, and each character has 7 bits, or 8, or twice 6 (LLVM Language
Reference, "LLVM Bitcode File Format"; `CST_CODE_CSTRING`, fixed(7), or VBR6 where there is no abbreviation)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

Widths = tuple[tuple[int, Callable[[int], int]], ...]
UNABBREVIATED: Widths = ((12, lambda char: (char & 31 | 32) | char >> 5 << 6),)
_ALL: Widths = ((7, int), (8, int), *UNABBREVIATED)


def rows(texts: Iterable[bytes], widths: Widths = _ALL) -> Iterator[bytes]:
    """The bytes that lie whole within a text, for each width of a character and each bit of a byte where it begins."""
    for text in texts:
        for width, encode in widths:
            bits = sum(encode(char) << (width * number) for number, char in enumerate(text))
            for shift in range(8):
                end = shift + width * len(text)
                whole = (bits << shift).to_bytes(end // 8 + 1, "little")
                yield whole[bool(shift) : end // 8]
