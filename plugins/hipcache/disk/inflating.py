"""Unpacks what zlib has packed, up to a bound: a few kilobytes of a store can be a terabyte of zeros."""

from __future__ import annotations

import zlib

MOST = 64 << 20


def inflate(packed: bytes, most: int = MOST) -> bytes:
    """The content, if that is not more than `most` bytes. Raises zlib.error."""
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(packed, most)
    if not unpacker.eof:
        raise zlib.error("cut short, or more than there may be")
    return content
