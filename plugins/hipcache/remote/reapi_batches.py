"""What goes in one request of the Remote Execution API, and what as a stream.

Servers differ in how much they take at once: what they say (`max_batch_total_size_bytes`, 0: anything) counts as an
upper bound, and so does BATCH, as grpc's own limit of a message is 4 MiB. A content above that goes as a stream.
"""

from __future__ import annotations

from collections.abc import Sequence

from hipcache.remote.backend import Blob

BATCH = 3 << 20  # bytes
_DIGEST = 100  # bytes, at most


def bound(said: int) -> int:
    """Of a server that says so."""
    return min(BATCH, said) if said > 0 else BATCH


def batches(blobs: Sequence[Blob], most: int) -> list[list[Blob]]:
    """Those that are no stream, of at most so many bytes each; a digest takes some, too."""
    found: list[list[Blob]] = []
    size = most
    for blob in blobs:
        if blob.size > most:
            continue
        if size + blob.size + _DIGEST > most:
            found.append([])
            size = 0
        found[-1].append(blob)
        size += blob.size + _DIGEST
    return found
