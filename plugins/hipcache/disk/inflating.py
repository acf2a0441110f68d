"""Packs JSON with zlib, and unpacks what zlib has packed, up to a bound: a few kilobytes of a store can be a terabyte
of zeros."""

from __future__ import annotations

import json
import zlib
from typing import Any

MOST = 64 << 20
# The level for actions, which packs compress (`store/packs`): in what zlib has made smaller, these find nothing.
STORED = 0


def inflate(packed: bytes, most: int = MOST) -> bytes:
    """The content, if that is not more than `most` bytes. Raises zlib.error."""
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(packed, most)
    if not unpacker.eof:
        raise zlib.error("cut short, or more than there may be")
    return content


def pack_json(value: object, level: int = STORED) -> bytes:
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode("utf-8", "surrogateescape"), level)


def unpack_json(packed: bytes) -> Any:
    """Raises ValueError for anything that `pack_json` did not write."""
    try:
        return json.loads(inflate(packed).decode("utf-8", "surrogateescape"))
    except (RecursionError, zlib.error) as error:
        raise ValueError(f"not packed JSON: {error}") from error
