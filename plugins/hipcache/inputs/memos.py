"""Memos: what was found out once about tools, kept as actions of the store.

There they are limited, checked and sealed like everything else that the store holds.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from contextlib import suppress

from hipcache.base.values import dataclass
from hipcache.disk.compression import STORED, inflate

MOST = 16 << 20


@dataclass(frozen=True)
class Memos:
    """`load` gives the memo of a key, None if there is none; `keep` stores one (only speed is lost if it cannot)."""

    load: Callable[[str], bytes | None]
    keep: Callable[[str, bytes], None]


def of_actions(get: Callable[[str], bytes | None], put: Callable[[str, bytes], None]) -> Memos:
    """Those in a store."""

    def load(key: str) -> bytes | None:
        packed = get(key)
        with suppress(zlib.error):
            return inflate(packed, MOST) if packed else None
        return None

    return Memos(load, lambda key, memo: put(key, zlib.compress(memo, STORED)))
