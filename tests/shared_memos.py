"""Memos of tools that all tests of one run share.

A memo that the store lacks is taken from a directory, and then kept in the store as if it had been found out anew. The
engine checks it as it does its own: the digest of a tool is good as long as the status of all its files is. What is
written here was found out by an engine, never read from a store: a test may damage its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hipcache.base.errors import StoreError
from hipcache.build.context import Context
from hipcache.inputs.identity import Memos, memos_in
from hipcache.store.local import LocalStore


def share(place: str) -> None:
    """For all engines of this process."""

    def memos(context: Context) -> Memos:
        return shared(memos_in(context.store.get_action, context.keep_for_speed), Path(place))

    Context.memos = property(memos)  # type: ignore[method-assign,assignment]


def give(place: Path, environ: Mapping[str, str]) -> None:
    """The same for a store that does not exist yet, and for engines that are not ours (in a build tool's process)."""
    store = Path(environ["HIPCACHE_DIR"])
    if (
        not store.is_absolute()
        or os.path.lexists(store)
        or environ.keys() & {"HIPCACHE_READONLY", "HIPCACHE_DISABLE"}
        or not place.exists()
    ):
        return
    local = LocalStore(store, max_bytes=0, read_only=False)
    for memo in place.iterdir():
        if not memo.suffix and b"/tmp/" not in (content := memo.read_bytes()):  # whole, and of this machine's tools
            with suppress(StoreError):  # a test of a store that cannot be made
                memos_in(local.get_action, local.put_action).keep(memo.name, content)


def shared(own: Memos, place: Path) -> Memos:
    def load(key: str) -> bytes | None:
        memo = own.load(key)
        if memo is None:
            try:
                memo = (place / key).read_bytes()
            except OSError:
                return None
            own.keep(key, memo)
        return memo

    def keep(key: str, memo: bytes) -> None:
        own.keep(key, memo)
        with suppress(OSError):  # another user's, or the disk is full
            place.mkdir(exist_ok=True)
            part = place / f"{key}.{os.getpid()}"
            part.write_bytes(memo)
            part.replace(place / key)

    return Memos(load, keep)
