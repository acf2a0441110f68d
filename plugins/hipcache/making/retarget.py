"""A front end's bitcode for another GPU of the same features (`planning.alike`): the same bits, but for a name and a
number.

The name stands in groups of attributes, a record for each group, which has for each attribute its kind, the key, 0, the
value, 0, each character as a number of its own. The number is the initializer of one variable, and so a record of the
module's constants. Both are rows of numbers of variable width, and begin at any bit (LLVM's BitCodeFormat, "Variable
Width Integer" and "PARAMATTR_GRP_CODE_ENTRY Record"; llvm/lib/Bitcode/Writer/BitcodeWriter.cpp,
writeAttributeGroupTable and writeConstants).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_KEY = b"target-cpu"
# The kind of an attribute with key and value, both as text.
_TEXTS = 4
# Bits of a number in a record that no abbreviation describes, and in one of an integer constant.
_PLAIN, _CONSTANT = 6, 8
# The abbreviation of an integer constant, of four bits: the second one of those that the writer defines.
_INTEGER = (1, 0, 1, 0)


def for_gpu(bitcode: bytes, old: str, new: str, numbers: tuple[int, int] | None = None) -> bytes | None:
    """The bitcode with the name `new` for `old`; with `numbers`, also with the second constant for the first one. None
    if these have other lengths, no function has that name, or the number is not there exactly once."""
    changed = _changed(bitcode, _attribute(old), _attribute(new))
    if changed is None or not changed[1]:
        return None
    if numbers is None:
        return changed[0]
    found = _changed(changed[0], *(_constant(number) for number in numbers))
    return found[0] if found and found[1] == 1 else None


def is_alone(assembly: bytes, numbers: tuple[int, int]) -> bool:
    """Does what the bitcode says have the first number once, and the second one nowhere? Then no function uses the
    constant, which would be a second one beside the number of another GPU."""
    first, second = (len(re.findall(rb"\b%d\b" % number, assembly)) for number in numbers)
    return (first, second) == (1, 0)


def renamed(assembly: bytes, old: str, new: str, numbers: tuple[int, int] | None) -> bytes:
    """What the other GPU's bitcode says."""
    text = assembly.replace(b'"%s"="%s"' % (_KEY, old.encode()), b'"%s"="%s"' % (_KEY, new.encode()))
    return re.sub(rb"\b%d\b" % numbers[0], b"%d" % numbers[1], text) if numbers else text


def _attribute(arch: str) -> list[int]:
    numbers = [_TEXTS, *_KEY, 0, *arch.encode(), 0]
    return [bit for number in numbers for bit in _variable(number, _PLAIN)]


def _constant(number: int) -> list[int]:
    # The sign is the lowest bit.
    return [*_INTEGER, *_variable(number << 1, _CONSTANT)]


def _variable(number: int, width: int) -> Iterator[int]:
    """The bits of a number, the lowest first, in chunks of `width`: the highest of each tells that one more follows."""
    while True:
        number, low = number >> (width - 1), number & ((1 << (width - 1)) - 1)
        yield from (low >> place & 1 for place in range(width - 1))
        yield int(number > 0)
        if not number:
            return


def _changed(content: bytes, old: Sequence[int], new: Sequence[int]) -> tuple[bytes, int] | None:
    """The content with the bits `new` wherever it has the bits `old`, and in how many places. None if one row is longer
    than the other."""
    if len(old) != len(new):
        return None
    places = [place for shift in range(8) for place in _places(content, old, shift)]
    made = bytearray(content)
    for place in places:
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            if one != other:
                made[place + number >> 3] ^= 1 << (place + number & 7)
    return bytes(made), len(places)


def _places(content: bytes, bits: Sequence[int], shift: int) -> Iterator[int]:
    """The numbers of the bits at which the row begins, among those that are `shift` bits behind the begin of a byte."""
    begin = -shift % 8  # of the row, where the first whole byte begins
    whole = (len(bits) - begin) // 8
    row = bytes(_byte(bits[begin + 8 * number :][:8]) for number in range(whole))
    rest = (*range(begin), *range(begin + 8 * whole, len(bits)))
    found = content.find(row)
    while found >= 0:
        place = found * 8 - begin
        if place >= 0 and all(_bit(content, place + number) == bits[number] for number in rest):
            yield place
        found = content.find(row, found + 1)


def _byte(bits: Sequence[int]) -> int:
    return sum(bit << number for number, bit in enumerate(bits))


def _bit(content: bytes, number: int) -> int:
    return content[number >> 3] >> (number & 7) & 1 if number >> 3 < len(content) else -1
