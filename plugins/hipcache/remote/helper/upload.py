"""The storage helper's uploads: all that is queued, for as long as the process lives."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import Any

from hipcache.config import Config
from hipcache.remote import queue
from hipcache.remote.helper.remotes import Remote
from hipcache.remote.place import destination_of
from hipcache.report import statistics
from hipcache.store.local import LocalStore
from hipcache.values import dataclass, field

_TICK = 0.1
_LOOK = 1.0  # seconds after which who has told nothing may have queued something
_BATCH = 32  # items that are uploaded together
_AGAIN = 10.0  # seconds after which an upload that failed is tried again
_TRIES = 3  # for an item that fails by itself, each after others have been uploaded


@dataclass
class _Line:
    """What one remote has got of the queue. `got`: names of items; `unreadable`: of those that this user cannot read;
    `failed`: of those that failed by themselves, the last one at the end, and how often they did after something else
    had gone well; `again`: of those that are to be tried again now; `is_well`: has nothing failed since the last
    upload? `told`: is a failure since then counted? `alone`: one item at a time, to find the one that fails; `said`:
    why the last one failed; `fault`: why nothing can be sent now; `asked`: there may be something new; `hurry`: try
    again at once."""

    remote: Remote
    got: set[str] = field(default_factory=set)
    unreadable: set[str] = field(default_factory=set)
    failed: dict[str, int] = field(default_factory=dict)
    again: list[str] = field(default_factory=list)
    is_well: bool = True
    told: bool = False
    alone: bool = False
    said: str = ""
    fault: str = ""
    asked: threading.Event = field(default_factory=threading.Event)
    hurry: threading.Event = field(default_factory=threading.Event)
    uploading: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class Uploads:
    """Each remote has a thread of its own, so that none waits for another one that is slow. An item leaves the queue
    when all have it. `ended`: nothing more is to be begun."""

    config: Config
    store: LocalStore
    remotes: list[Remote]
    ended: bool = False
    _lines: list[_Line] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def _to(self) -> str:
        return destination_of(self.config)

    def run(self, ready: threading.Event, used: Callable[[], object]) -> None:
        """`ready`: the remotes are open; `used` is told of each upload."""
        ready.wait()
        with suppress(OSError):
            queue.drop_old(self.store.confined, self._to)
        lines = [_Line(remote) for remote in self.remotes]
        self._lines += [line for line in lines if line.remote.address.writes]
        for line in lines:
            threading.Thread(target=self._serve, args=(line, used), daemon=True).start()
        self.ask()

    def ask(self) -> None:
        """There may be something new in the queue."""
        self._drop_unwanted()
        for line in self._lines:
            line.asked.set()

    def end(self) -> None:
        """When the uploads that are under way have ended."""
        self.ended = True
        for line in self._lines:
            with line.uploading:
                continue

    def are_stuck_or_done(self) -> bool:
        return not self.remotes or bool(self.fault()) or not self._waiting()

    def fault(self) -> str:
        """Why nothing more can be sent now; empty while something can."""
        there = self._names()
        left = [line for line in self._lines if not there <= line.got | line.unreadable]
        return left[0].fault if left and all(line.fault for line in left) else ""

    def _serve(self, line: _Line, used: Callable[[], object]) -> None:
        while True:
            line.asked.wait(_LOOK)
            line.asked.clear()
            self._drop_unwanted()
            if line.remote.breaker.is_to_be_probed():
                line.remote.probe()
            while line.remote.address.writes and not self.ended and self._some(line):
                used()
            if line.fault:
                line.hurry.wait(_AGAIN)
                line.again = [*line.failed]
            line.hurry.clear()

    def _some(self, line: _Line) -> bool:
        """Some items of the queue. False where there is nothing to do, or nothing can be done now."""
        with line.uploading:
            try:
                items, others = self._next(line)
            except OSError:
                return False
            fault = self._upload(line, items) if items else ""
            with self._lock:
                if fault:
                    self._note_failed(line, items, fault, others=others)
                elif items:
                    line.got.update(item.name for item in items)
                    for item in items:
                        line.failed.pop(item.name, None)
                    line.is_well, line.alone = True, False
                if not fault:
                    line.fault = line.said if line.failed and not items else ""
                self._remove_what_all_have()
            return bool(items) and not line.fault

    def _next(self, line: _Line) -> tuple[list[queue.Item], bool]:
        """The items that are to be uploaded; are there others that have not failed? Raises OSError."""
        most = 1 if line.alone else _BATCH
        items = self._read(line, most + 1, line.got | line.unreadable | line.failed.keys())
        if items:
            return items[:most], len(items) > most
        there = self._names()
        line.failed = {name: tries for name, tries in line.failed.items() if name in there}
        while line.again and not items:
            items = self._read(line, 1, there - {line.again.pop()})
        return items, False

    def _read(self, line: _Line, most: int, but: set[str]) -> list[queue.Item]:
        items, unreadable = queue.read(self.store.confined, most, but, self._to)
        line.unreadable |= unreadable
        return items

    def _note_failed(self, line: _Line, items: list[queue.Item], fault: str, *, others: bool) -> None:
        """The remote may be at fault, or one item: it may be too large, or the remote's own rules forbid it. Then the
        others are uploaded, and it is left out in the end."""
        line.fault, line.said = "", fault
        if len(items) > 1:
            line.alone = True
            return
        (name,) = [item.name for item in items]
        tries = line.failed.pop(name, 0) + line.is_well
        if tries < _TRIES:
            line.failed[name] = tries
        else:
            line.got.add(name)
        if not (line.is_well and others):
            line.fault = fault
        line.is_well = False

    def _upload(self, line: _Line, items: list[queue.Item]) -> str:
        """The fault, or nothing. An outage is counted once, however often it is tried again."""
        try:
            tally = line.remote.open().upload(items, lambda size: None)
        except Exception as error:
            if not line.told:
                statistics.record_remote(self.config.dir, {"errors": 1}, self.config.umask)
            line.told = True
            return line.remote.failed_upload(error)
        line.told = False
        counts = {"uploads": tally.uploads, "sent": tally.sent, "errors": tally.errors}
        statistics.record_remote(self.config.dir, counts, self.config.umask)
        return ""

    def _remove_what_all_have(self) -> None:
        """A queue that fills up waits for none that is at fault."""
        there = self._names()
        well = [line for line in self._lines if not line.fault]
        waited_for = well if well and len(there) > queue.MOST // 2 else self._lines
        for name in set.intersection(there, *(line.got for line in waited_for)):
            queue.remove(self.store.confined, name)
        for line in self._lines:
            line.got &= there
            line.unreadable &= there

    def _names(self) -> set[str]:
        with suppress(OSError):
            return set(queue.names(self.store.confined, self._to))
        return set()

    def _waiting(self) -> set[str]:
        """Without those that none can read."""
        left_out = set.intersection(*(line.unreadable for line in self._lines)) if self._lines else set()
        return self._names() - left_out

    def _drop_unwanted(self) -> None:
        if self.remotes and not any(remote.address.writes for remote in self.remotes):
            for name in self._names():
                queue.remove(self.store.confined, name)

    def sync(self, say: Callable[[dict[str, Any]], object]) -> None:
        """Say what is left, until nothing is, or no more can be sent."""
        for line in self._lines:
            line.fault = ""
            line.unreadable.clear()
            line.again = [*line.failed]
            line.hurry.set()
        self.ask()
        while True:
            left, fault = len(self._waiting()), self.fault()
            told = [fault, "see 'hipcache doctor'"] if fault and left else None
            say({"left": left, "told": told})
            if not left or told:
                return
            time.sleep(_TICK)
