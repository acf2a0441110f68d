"""Notes: small files of the store that only cost speed or an explanation when they are lost: tools/, history/.

They count towards the limit as all entries do, and are evicted with them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress

from hipcache.disk.confined import MOST_NOTE
from hipcache.errors import StoreError
from hipcache.store.entries import Entries
from hipcache.store.layout import USE_STEP, last_use, read_all


class Notes:
    """Those below one directory of the store. `put` writes one, and raises StoreError."""

    def __init__(self, directory: str, entries: Entries, put: Callable[[str, bytes], None], now: Callable[[], float]):
        self._directory = directory
        self._entries = entries
        self._put = put
        self._now = now

    def get(self, name: str) -> bytes | None:
        with self._entries.opened(self._name(name), MOST_NOTE) as fd:
            return None if fd is None else read_all(fd)
        return None

    def use(self, name: str) -> None:
        """Note that it is of use, so that it stays in the store."""
        with suppress(OSError):
            if abs(self._now() - self._entries.confined.status(self._name(name)).st_mtime) >= USE_STEP:
                self._entries.touch(self._name(name))

    def put(self, name: str, content: bytes, *, when: float | None = None) -> bool:
        """`when`: its modification time. False if it cannot be kept."""
        if self._entries.read_only or len(content) > MOST_NOTE:
            return False
        try:
            self._put(self._name(name), content)
            if when is not None:
                self._entries.confined.touch(self._name(name), int(when * 1e9))
        except (StoreError, OSError):
            return False
        return True

    def remove(self, name: str) -> None:
        with suppress(OSError):
            if not self._entries.read_only:
                self._entries.remove(self._name(name))

    def listing(self, name: str = "") -> list[tuple[int, str]]:
        """(last use, name below this directory) of each file there."""
        now = self._now()
        return [
            (last_use(one.st_mtime_ns, now), f"{name}/{last}".lstrip("/"))
            for last, one in self._listing(name)
            if stat.S_ISREG(one.st_mode)
        ]

    def directories(self) -> list[str]:
        return [last for last, one in self._listing("") if stat.S_ISDIR(one.st_mode)]

    def _listing(self, name: str) -> list[tuple[str, os.stat_result]]:
        try:
            return self._entries.confined.listing(self._name(name) if name else self._directory)
        except OSError:
            return []

    def _name(self, name: str) -> str:
        return f"{self._directory}/{name}"
