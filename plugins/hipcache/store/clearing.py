"""Empties a local store: moves its directories away, with no lock but the ledger's for that moment, and removes them
afterwards. What is in one that cannot be moved (a mount, a lower layer of an overlay) is removed there."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress

from hipcache.disk.confined import Confined
from hipcache.store import space
from hipcache.store.layout import ACTIONS, BLOBS, HISTORY, TMP, TOOLS, charge, make, random_name
from hipcache.store.ledger import Ledger

_DIRECTORIES = (ACTIONS, BLOBS, HISTORY, TOOLS)
# Errors where a directory cannot be moved, and what is in it can be removed.
_FIXED = (errno.EXDEV, errno.EBUSY, *space.ERRORS)


def clear(confined: Confined, ledger: Ledger, progress: Callable[[int], object]) -> int:
    """Remove every entry; the bytes freed. `progress` is told how many are removed. Where a directory could not be
    moved, entries that others put meanwhile may be gone, too, and the ledger is left to be counted. Raises OSError."""
    going: list[str] = []
    fixed: list[str] = []
    sizes: list[int] = []

    def each(size: int) -> None:
        sizes.append(size)
        progress(len(sizes))

    try:
        with ledger.held() as book:
            for directory in _DIRECTORIES:
                gone = f"{TMP}/gone-{random_name()}"
                try:
                    confined.rename(directory, gone)
                    going.append(gone)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if error.errno not in _FIXED:
                        raise
                    fixed.append(directory)
            with suppress(OSError):  # a full disk has room for them below
                make(confined)
            book.bytes = book.entries = 0
            book.counted_at = 0 if fixed else book.counted_at
            book.save()
    finally:
        for directory in fixed:
            going += [f"{directory}/{last}" for last, _ in confined.listing(directory)]
        for gone in going:
            confined.remove(gone, each)
    make(confined)
    return sum(charge("", size) for size in sizes)
