"""A long text in portions: signals are heard between two steps of Python, so no step may go through all of it; and a
thread that is to end does so between two portions."""

from __future__ import annotations

from collections.abc import Iterator

from hipcache.native import aside

# A step over so many bytes takes some 10 ms.
SIZE = 1 << 20


def cut(text: bytes, mark: bytes, size: int = SIZE) -> Iterator[bytes]:
    """The text in parts of `size` or somewhat more, each up to and with a mark."""
    start = 0
    while len(text) - start > size:
        place = text.find(mark, start + size)
        if place < 0:
            break
        yield text[start : place + len(mark)]
        start = place + len(mark)
        aside.go_on()
    yield text[start:]


def lines(text: bytes, size: int = SIZE) -> Iterator[bytes]:
    """Those of the text, without their ends; now and then an empty one more."""
    for part in cut(text, b"\n", size):
        yield from part.split(b"\n")
