"""What came with whole compiles and serves none of them: their manifests, and direct records as contents.

A compile needs its direct record where it looks for that, and the contents that the record names. To write the rest
takes about as long, on the processors that the hits of the build need. So it is written a moment later, and the helper
has it in memory until then. What a helper that was killed has not written is asked for again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress

from hipcache.errors import StoreError
from hipcache.store import Store
from hipcache.values import dataclass, field

# Seconds; bytes that are held at most.
_LATER = 2.0
MOST_HELD = 64 << 20


@dataclass
class Behind:
    """`later`: seconds until it is written."""

    store: Store
    later: float = _LATER
    _records: dict[str, bytes] = field(default_factory=dict)
    _contents: dict[str, bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _writing: threading.Lock = field(default_factory=threading.Lock)
    _is_waiting: bool = False

    def keep(self, records: Mapping[str, bytes], contents: Mapping[str, bytes]) -> None:
        with self._lock:
            self._records |= records
            self._contents |= contents
            held = sum(map(len, (*self._records.values(), *self._contents.values())))
            starts = 0 < held <= MOST_HELD and not self._is_waiting
            self._is_waiting = self._is_waiting or starts
        if held > MOST_HELD:
            self.write()
        if starts:
            threading.Thread(target=self._run, daemon=True).start()

    def record(self, key: str) -> bytes | None:
        with self._lock:
            held = self._records.get(key)
        return self.store.get_action(key) if held is None else held

    def content(self, name: str) -> bytes | None:
        with self._lock:
            held = self._contents.get(name)
        return self.store.get_blob(name) if held is None else held

    def size(self, name: str) -> int | None:
        """Of a content."""
        with self._lock:
            held = self._contents.get(name)
        return self.store.blob_size(name) if held is None else len(held)

    def write(self) -> None:
        """Put all into the store, contents first. A record that has come there meanwhile is newer: a compile has added
        to it. A full disk is no fault."""
        with self._writing:
            with self._lock:
                records, contents = dict(self._records), dict(self._contents)
            with suppress(StoreError):
                self.store.put_blobs(contents.values())
                self.store.put_actions({key: records[key] for key in records if self.store.get_action(key) is None})
            with self._lock:
                # What has come meanwhile is still to be written.
                self._records = {key: one for key, one in self._records.items() if records.get(key) is not one}
                self._contents = {name: one for name, one in self._contents.items() if name not in contents}

    def _run(self) -> None:
        try:
            while True:
                time.sleep(self.later)
                self.write()
                with self._lock:
                    self._is_waiting = bool(self._records or self._contents)
                    if not self._is_waiting:
                        return
        except BaseException:
            with self._lock:
                self._is_waiting = False  # what is held is written with what comes next, or at the helper's end
            raise
