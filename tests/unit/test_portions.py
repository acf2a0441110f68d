"""Long texts in portions (`interruptible`)."""

from __future__ import annotations

from random import Random

import pytest
from hipcache.base import interruptible
from hipcache.inputs import token_pasting

WORDS = [b'"', b"\n", b" ", b".inc", b".in", b"bin", b"lude", b"c", b"asm", b"(", b",", b"\\x2e", b'"\n  "', b"l"]


def some_text(dice: Random) -> bytes:
    return b"".join(dice.choice(WORDS) for _ in range(dice.randrange(40)))


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_the_portions_of_a_text_are_the_text_and_end_behind_a_mark(size: int) -> None:
    for seed in range(300):
        text = some_text(Random(seed))
        parts = list(interruptible.portions(text, b"\n", size))
        assert b"".join(parts) == text
        assert all(part.endswith(b"\n") for part in parts[:-1])
        assert [line for line in interruptible.lines(text, size) if line] == [
            line for line in text.split(b"\n") if line
        ]


def test_a_portion_is_little_more_than_its_size() -> None:
    assert max(map(len, interruptible.portions(b"some words\n" * 100_000, b"\n"))) < interruptible.PORTION + 100


def test_assembly_in_pieces_is_found_over_the_ends_of_portions() -> None:
    found = set()
    for seed in range(3000):
        text = some_text(Random(seed))
        whole = token_pasting.assembles_in_pieces(text)
        assert token_pasting.assembles_in_pieces(text, 1) == token_pasting.assembles_in_pieces(text, 5) == whole, text
        found.add(whole)
    assert found == {True, False}
    assert token_pasting.assembles_in_pieces(b'asm(".in"\n"c"\n\n  "bin");', 1)
