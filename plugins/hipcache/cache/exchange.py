"""Records that travel between two stores: which contents each of them needs, and in which form.

Two kinds do: those of an action by content (`cache/content`), and those of a pass (`cache/entries`), a list of entries.
A list is merged with the one that is there already: two machines have other headers. Read sets travel without the
status of files, which says nothing elsewhere: with one, a file of that status would count as unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from hipcache.base.values import replace
from hipcache.cache import entries
from hipcache.cache.content import duration
from hipcache.cache.entries import Entry
from hipcache.inputs.keys import digest_bytes, is_digest
from hipcache.inputs.readset import ReadSet

# Entries of a pass whose outputs are fetched and sent: each may be an object of some megabytes.
MOST_ENTRIES = 4


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


def needs(entry: Entry) -> list[str]:
    return [entry.reads, *(hash for hash in entry.outputs if hash)]


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


def pack(known: Sequence[Entry]) -> bytes:
    return entries.pack(known)


def _is_good(entry: Entry) -> bool:
    texts = (entry.reads, entry.text, entry.message_format, entry.base, entry.cuid, *entry.outputs, *entry.passing)
    hashes = [entry.reads, *filter(None, (*entry.outputs, *entry.passing))]
    return all(isinstance(text, str) for text in texts) and all(is_digest(hash) for hash in hashes)


def hash_of(content: bytes) -> str:
    return digest_bytes(content)
