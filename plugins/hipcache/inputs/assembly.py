"""May bitcode have inline assembly that reads a file, in its functions or of the module?

Who compiles the bitcode assembles that, and no key or trace says what `.include` and `.incbin` read then. Names of
directives are in upper or lower case (llvm/lib/MC/MCParser/AsmParser.cpp); an operand may stand for the end of one, and
a macro put it together. The text has no abbreviation in bitcode (llvm/lib/Bitcode/Writer/BitcodeWriter.cpp). Four
letters tell enough: a comment of assembly that has them costs a back end each time, no more, as do the same bytes by
chance (one file in some thousands of 1 MB). A search takes 3 ms for each MB.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

from hipcache import native
from hipcache.inputs import bit_strings

WHY = "its inline assembly may read a file"
_BEGINNINGS = ("incb", "incl", "inc$", ".mac", ".irp")


def reads_files(path: Path | str) -> bool:
    """Of bitcode, or of a file that contains some. Raises OSError."""
    return bool(native.search(str(path), _rows()))


@cache
def _rows() -> list[bytes]:
    found = list(bit_strings.rows(_in_all_cases(), bit_strings.UNABBREVIATED))
    size = min(map(len, found))
    return sorted({row[:size] for row in found})


def _in_all_cases() -> Iterator[bytes]:
    for beginning in _BEGINNINGS:
        for letters in product(*({letter, letter.upper()} for letter in beginning)):
            yield "".join(letters).encode()
