"""The storage helper's uploads: all that is queued, for as long as the process lives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hipcache.config import Config
from hipcache.helper.remotes import Remote
from hipcache.remote import queue
from hipcache.report import statistics
from hipcache.store.local import LocalStore
from hipcache.values import dataclass, field

_TICK = 0.1
_BATCH = 32  # items that are uploaded together
_AGAIN = 10.0  # seconds after which an upload that failed is tried again


@dataclass
class Uploads:
    """`asked`: there may be something new in the queue; `fault`: why the last upload failed; `ended`: nothing more is
    to be begun."""

    config: Config
    store: LocalStore
    remotes: list[Remote]
    asked: threading.Event = field(default_factory=threading.Event)
    fault: str = ""
    ended: bool = False
    _hurry: threading.Event = field(default_factory=threading.Event)
    _uploading: threading.Lock = field(default_factory=threading.Lock)

    def run(self, ready: threading.Event, used: Callable[[], object]) -> None:
        """`ready`: the remotes are open; `used` is told of each upload."""
        ready.wait()
        self.asked.set()
        while True:
            self.asked.wait(5.0)
            self.asked.clear()
            for remote in self.remotes:
                if remote.breaker.is_to_be_probed():
                    remote.probe()
            if self.remotes and not any(remote.address.writes for remote in self.remotes):
                self._drop_all()
            while not self.ended and self.some():
                used()
            if self.fault:
                self._hurry.wait(_AGAIN)
            self._hurry.clear()

    def end(self) -> None:
        """When the upload that is under way has ended."""
        self.ended = True
        with self._uploading:
            return

    def are_stuck_or_done(self) -> bool:
        return bool(self.fault) or not queue.names(self.store.confined)

    def some(self) -> bool:
        """Some items of the queue. False where there is nothing to do, or nothing can be done now."""
        with self._uploading:
            try:
                items = queue.read(self.store.confined, _BATCH)
            except OSError:
                return False
            if not items or not self.remotes:
                self.fault = ""
                return False
            for remote in self.remotes:
                if remote.address.writes and not self._to(remote, items):
                    return False
            for item in items:
                queue.remove(self.store.confined, item.name)
            self.fault = ""
            return True

    def _to(self, remote: Remote, items: list[queue.Item]) -> bool:
        try:
            tally = remote.open().upload(items, lambda size: None)
        except Exception as error:
            self.fault = remote.failed_upload(error)
            statistics.record_remote(self.config.dir, {"errors": 1}, self.config.umask)
            return False
        counts = {"uploads": tally.uploads, "sent": tally.sent}
        statistics.record_remote(self.config.dir, counts, self.config.umask)
        return True

    def _drop_all(self) -> None:
        with suppress(OSError):
            for name in queue.names(self.store.confined):
                queue.remove(self.store.confined, name)

    def sync(self, say: Callable[[dict[str, Any]], object]) -> None:
        """Say what is left, until nothing is, or no more can be sent."""
        self.fault = ""
        self.asked.set()
        self._hurry.set()
        while True:
            left = len(queue.names(self.store.confined))
            told = [self.fault, "see 'hipcache doctor'"] if self.fault and left else None
            say({"left": left, "told": told})
            if not left or told:
                return
            time.sleep(_TICK)
