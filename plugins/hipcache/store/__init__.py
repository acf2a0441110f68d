"""The store: records and contents in one directory, and its size.

Two name spaces, as in the Remote Execution API (github.com/bazelbuild/remote-apis): *actions* map the key of a job to a
small record, *blobs* hold content named by its own digest. A record names the blobs that it needs. A record whose blob
is gone is a miss, never an error.

Keys and digests are 64 lower-case hexadecimal digits (BLAKE3, 256 bits).
"""

from __future__ import annotations

from hipcache.base.values import dataclass


@dataclass(frozen=True)
class StoreSize:
    """The size of the store: bytes on disk, number of entries, and the limit in bytes (0: no limit)."""

    bytes: int
    entries: int
    max_bytes: int
