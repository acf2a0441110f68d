"""What a record of the store names: the blobs without which it is of no use to anybody.

A key is a digest and does not tell of which kind its record is. So a record is known by how it begins: JSON (passes,
objects, links: `cache/entries.py`, `cache/content.py`; memos), zlib (remembered answers and scans, which name no
blob), and else the record of a whole compile (`direct/record.py`).
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from hipcache.cache.entries import Entry, unpack

_OLD = ("code", "object")
PASS, ANSWER, UNIT, WHOLE = "pass", "answer", "unit", "whole compile"
# Nobody remembers that much; a record of noise may claim it.
_LONGEST_ANSWER = 1 << 28


def kind_of(payload: bytes) -> str:
    first = payload[:1]
    return {b"[": PASS, b"{": UNIT, b"x": ANSWER}.get(first, WHOLE)


def blobs(payload: bytes) -> list[str]:
    """Of a record that is no pass's. Raises ValueError for one that nobody has written."""
    kind = kind_of(payload)
    if kind == WHOLE:
        return _of_whole(payload)
    if kind == ANSWER:
        _check_answer(payload)
        return []
    found = _json(payload)
    if not isinstance(found, dict) or not found:
        raise ValueError("it is no record")
    outputs = found.get("outputs", [])
    # The others are of before.
    blobs = [*(outputs if isinstance(outputs, list) else [None]), *(found[name] for name in _OLD if name in found)]
    if not all(isinstance(blob, str) for blob in blobs):
        raise ValueError("it names no blob")
    return blobs


def entries(payload: bytes) -> list[Entry]:
    """Of a pass's record. Raises ValueError."""
    found = unpack(payload)
    listed = _json(payload)
    if not found and not (isinstance(listed, list) and all(isinstance(one, dict) and "reads" in one for one in listed)):
        raise ValueError("it is no list of a pass's entries")
    return found


def blobs_of(entry: Entry) -> list[str]:
    return [digest for digest in (entry.reads, *entry.outputs) if digest]


def _of_whole(payload: bytes) -> list[str]:
    """The outputs, the list of what is watched of the system, and its contents: see `direct/record.py`."""
    rest = _Rest(payload)
    rest.take(32 + 32 + 8)
    rest.string()
    outputs = _Rest(rest.string())
    for _ in range(6):
        rest.string()
    rest.take(32)
    named = [rest.take(32), rest.take(32)]
    rest.string()
    if rest.left:
        raise ValueError("it is longer than it says")
    while outputs.left:
        outputs.take(1)
        named.append(outputs.take(32))
        outputs.take(8)
        outputs.string()
    return [digest.hex() for digest in named]


class _Rest:
    """Takes parts from the front; raises ValueError where there are not so many bytes."""

    def __init__(self, content: bytes) -> None:
        self.left = content

    def take(self, size: int) -> bytes:
        if size > len(self.left):
            raise ValueError("it is shorter than it says")
        part, self.left = self.left[:size], self.left[size:]
        return part

    def string(self) -> bytes:
        return self.take(int.from_bytes(self.take(4), "little"))


def _json(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is no JSON") from error


def _check_answer(payload: bytes) -> None:
    try:
        inflate = zlib.decompressobj()
        text = inflate.decompress(payload, _LONGEST_ANSWER)
        if not inflate.eof or not isinstance(_json(text), dict):
            raise ValueError("it is not whole")
    except zlib.error as error:
        raise ValueError(f"it cannot be unpacked: {error}") from error
