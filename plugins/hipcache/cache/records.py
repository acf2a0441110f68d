"""Records of the store for those that have not written them: the blobs without which each is of no use to anybody, and
the form in which it travels to another store.

A key is a digest and does not tell of which kind its record is. So a record is known by how it begins: JSON (passes,
objects, links: `cache/entries.py`, `cache/content.py`; memos), zlib (remembered answers and scans, which name no
blob), and else a direct record (`direct/record.py`).

Two kinds travel: records by content, and those of a pass, a list of entries, which is merged with the one that is there
already: two machines have other headers. Read sets travel without the status of files, which says nothing elsewhere:
with one, a file of that status would count as unchanged.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from hipcache.base.keys import is_digest
from hipcache.base.values import replace
from hipcache.cache import entries
from hipcache.cache.content import duration
from hipcache.cache.entries import Entry
from hipcache.inputs.readset import ReadSet

# Entries of a pass whose outputs are fetched and sent: each may be an object of some megabytes.
MOST_ENTRIES = 4
_OLD = ("code", "object")
PASS, ANSWER, UNIT, DIRECT = "pass", "answer", "unit", "direct record"
# Nobody remembers that much; a record of noise may claim it.
_LONGEST_ANSWER = 1 << 28


class DirectNames(NamedTuple):
    """The names in a direct record: its outputs (path, digest), the entries that its units used (is it an
    action, digest), records of the history (paths below `v2/`), and the other blobs without which it is of no use."""

    outputs: tuple[tuple[str, str], ...]
    uses: tuple[tuple[bool, str], ...]
    history: tuple[str, ...]
    lists: tuple[str, ...]


def kind_of(payload: bytes) -> str:
    kind = {b"[": PASS, b"{": UNIT, b"x": ANSWER}.get(payload[:1], DIRECT)
    if kind != DIRECT:
        # A direct record begins with a digest, and so with any byte.
        with suppress(ValueError):
            direct_record(payload)
            return DIRECT
    return kind


def blobs(payload: bytes) -> list[str]:
    """The blobs of a record that is no pass's. Raises ValueError for one that nobody has written."""
    kind = kind_of(payload)
    if kind == DIRECT:
        found = direct_record(payload)
        return [*found.lists, *(digest for _, digest in found.outputs)]
    if kind == ANSWER:
        _check_answer(payload)
        return []
    unit = _json(payload)
    if not isinstance(unit, dict) or not unit:
        raise ValueError("it is no record")
    outputs = unit.get("outputs", [])
    # The others are of before.
    blobs = [*(outputs if isinstance(outputs, list) else [None]), *(unit[name] for name in _OLD if name in unit)]
    if not all(isinstance(blob, str) for blob in blobs):
        raise ValueError("it names no blob")
    return blobs


def entries_of(payload: bytes) -> list[Entry]:
    """The entries of a pass's record. Raises ValueError."""
    found = entries.unpack(payload)
    listed = _json(payload)
    if not found and not (isinstance(listed, list) and all(isinstance(row, dict) and "reads" in row for row in listed)):
        raise ValueError("it is no list of a pass's entries")
    return found


def blobs_of(entry: Entry) -> list[str]:
    return [digest for digest in (entry.reads, *entry.outputs) if digest]


def direct_record(payload: bytes) -> DirectNames:
    """The names in a direct record: see `direct/record.py`. Raises ValueError."""
    rest = _Rest(payload)
    rest.take(32 + 32 + 8)
    rest.string()
    outputs = _Rest(rest.string())
    for _ in range(2):
        rest.string()
    history, uses = rest.string(), _Rest(rest.string())
    for _ in range(2):
        rest.string()
    rest.take(32)
    lists = rest.take(32).hex(), rest.take(32).hex()
    rest.string()
    if rest.left:
        raise ValueError("it is longer than it says")
    named, used = [], []
    while outputs.left:
        outputs.take(1)
        digest = outputs.take(32).hex()
        outputs.take(8)
        named.append((os.fsdecode(outputs.string()), digest))
    while uses.left:
        used.append((uses.take(1) == b"a", uses.take(32).hex()))
    notes = tuple(os.fsdecode(name) for name in history.split(b"\0") if name)
    return DirectNames(tuple(named), tuple(used), notes, lists)


class _Rest:
    """Takes parts from the front; raises ValueError if there are not so many bytes."""

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


def is_pass(record: bytes) -> bool:
    return record.startswith(b"[")


def outputs(record: bytes) -> list[str] | None:
    """The contents of a record by content; None for a record of another kind, or one that nobody has written."""
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        found = json.loads(record)
        if set(found) == {"outputs", "passing", "text", "seconds"}:
            hashes = [*found["outputs"], *found["passing"]]
            duration(found["seconds"])
            if all(is_digest(hash) for hash in hashes) and isinstance(found["text"], str):
                return list(found["outputs"])
    return None


def passes(record: bytes) -> list[Entry]:
    """The newest entries of a pass's record that are what they should be."""
    return [entry for entry in entries.unpack(record) if _is_good(entry)][:MOST_ENTRIES]


def without_status(packed: bytes) -> bytes | None:
    """A read set as it travels; None for what is none."""
    try:
        reads = ReadSet.unpack(packed)
        files = tuple(replace(file, status=None) for file in reads.files)
        besides = tuple(replace(file, status=None) for file in reads.besides)
        stripped = replace(reads, files=files, besides=besides)
        good = all(isinstance(part, str) for part in _texts(stripped))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return stripped.pack() if good and files else None


def _texts(reads: ReadSet) -> Iterable[object]:
    for file in reads.files:
        yield from (file.path, file.digest, file.bare, file.code, *file.values)
    for other in reads.besides:
        yield from (other.path, other.digest)
    for pair in (*reads.alike, *reads.links):
        yield from pair
    yield from (*reads.present, *(text for place, names in reads.absent for text in (place, *names)))


def moved(known: Sequence[Entry], read_set: Callable[[str], bytes | None], keep: Callable[[bytes], str]) -> list[Entry]:
    """The entries with read sets that travel. `read_set` gives a packed one by its digest; `keep` takes the other."""
    found = []
    for entry in known:
        packed = read_set(entry.reads)
        stripped = without_status(packed) if packed else None
        if stripped:
            found.append(replace(entry, reads=keep(stripped)))
    return found


def merged(first: Sequence[Entry], second: Sequence[Entry]) -> list[Entry]:
    """Both, without those of the second that the first replaces."""
    result = list(second)
    for entry in reversed(first):
        result = entries.with_newest(entry, result)
    return result[: entries.MOST]


def _is_good(entry: Entry) -> bool:
    texts = (entry.reads, entry.text, entry.message_format, entry.base, entry.cuid, *entry.outputs, *entry.passing)
    hashes = [entry.reads, *filter(None, (*entry.outputs, *entry.passing))]
    return all(isinstance(text, str) for text in texts) and all(is_digest(hash) for hash in hashes)
