"""May bitcode have inline assembly that reads a file, in its functions or of the module?

Who compiles the bitcode assembles that, and no key or trace says what `.include` and `.incbin` read then. Names of
directives are in upper or lower case (llvm/lib/MC/MCParser/AsmParser.cpp); an operand may stand for the end of one, and
a macro put it together. A comment of assembly that has the beginning of one costs a back end each time, no more.

The text has no abbreviation in bitcode (llvm/lib/Bitcode/Writer/BitcodeWriter.cpp), so a search for rows of bytes (3 ms
for each MB) finds each; but it finds them in other records, too: "funclet" is in each module of LLVM 23. So where there
is such a row, the assembly of each module is read. What is no module, or does not read, is left to the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import product
from pathlib import Path

from hipcache import native

# Of a character of a text in bitcode: 7 bits, or 8, or twice 6 (LLVM Language Reference, "LLVM Bitcode File Format";
# `CST_CODE_CSTRING`, fixed(7), or VBR6 where there is no abbreviation).
Widths = tuple[tuple[int, Callable[[int], int]], ...]
UNABBREVIATED: Widths = ((12, lambda char: (char & 31 | 32) | char >> 5 << 6),)
_ALL: Widths = ((7, int), (8, int), *UNABBREVIATED)


WHY = "its inline assembly may read a file"
_MAGIC = b"BC\xc0\xde"
_BEGINNINGS = ("incb", "incl", "inc$", ".mac", ".irp")


def reads_files(path: Path | str) -> bool:
    """Of bitcode, or of a file that contains some. Raises OSError."""
    if not native.search(str(path), _rows()):
        return False
    content, at, rest = Path(path).read_bytes(), 0, b""
    while (start := content.find(_MAGIC, at)) >= 0:
        said = native.declarations(content, start)
        end = said[1] if said else start + len(_MAGIC)
        rest += content[at : start if said else end]
        if said and any(_spells(text) for kind, text in said[0] if kind == b"a"):
            return True
        at = end
    rest += content[at:]
    return any(row in rest for row in _rows())


def _spells(text: bytes) -> bool:
    lower = text.lower()
    return any(beginning.encode() in lower for beginning in _BEGINNINGS)


@cache
def _rows() -> list[bytes]:
    found = list(rows(_in_all_cases(), UNABBREVIATED))
    size = min(map(len, found))
    return sorted({row[:size] for row in found})


def _in_all_cases() -> Iterator[bytes]:
    for beginning in _BEGINNINGS:
        for letters in product(*({letter, letter.upper()} for letter in beginning)):
            yield "".join(letters).encode()


def rows(texts: Iterable[bytes], widths: Widths = _ALL) -> Iterator[bytes]:
    """The bytes that lie whole within a text in bitcode, which begins at any bit of a byte, for each width of a
    character."""
    for text in texts:
        for width, encode in widths:
            bits = sum(encode(char) << (width * number) for number, char in enumerate(text))
            for shift in range(8):
                end = shift + width * len(text)
                whole = (bits << shift).to_bytes(end // 8 + 1, "little")
                yield whole[bool(shift) : end // 8]
