"""BLAKE3: the package `blake3` if it is installed, else our own C. Both give the same digests."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["blake3"]

if TYPE_CHECKING:
    from blake3 import blake3
else:
    try:
        from blake3 import blake3
    except ImportError:
        from hipcache.native.hashing import OwnBlake3 as blake3

        blake3()  # where there is no library: an error now, and not amid a compile
