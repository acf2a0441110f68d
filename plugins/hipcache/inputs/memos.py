"""Memos: what was found out once about tools, kept as actions of the store.

There they are bounded, checked and sealed like everything else that the store holds.
"""

from __future__ import annotations

from collections.abc import Callable

from hipcache.values import dataclass


@dataclass(frozen=True)
class Memos:
    """`load` gives the memo of a key, None where there is none; `keep` stores one (only speed is lost where it
    cannot)."""

    load: Callable[[str], bytes | None]
    keep: Callable[[str, bytes], None]
