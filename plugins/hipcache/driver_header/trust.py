"""Which passes are compared, with the precompiled header and without, before it is trusted.

A header comes to trust for a compiler and a side (device or host) when three sources came out the same, byte for byte:
the bitcode of a front end, the object of the host, the messages, the files that were read. (An edited source is another
one. Of each source one architecture is compared; the others wait for that, and may use it then: that clang reads PCH
files well depends on neither the architecture nor the standard of C++.) Of the uses of a PCH file one in eight is
compared until one came out the same, of those for other architectures too, and then one in so many
(HIPCACHE_PREAMBLE_CHECKS) for ever. A difference ends the use for that compiler, unless the compiler differs from
itself.

The record is JSON {"outputs": [], "begun": [source, ...], "same": [source, ...]}. Like the one that switches it off, it
stands in the store of the results, which another machine may go on with, and in that of the headers: an empty store
compares nothing again, and none uses what another one has found to differ.
"""

from __future__ import annotations

import json
import os
import threading
from enum import Enum, auto

from hipcache.base.values import dataclass, field
from hipcache.cache.content import Shelf
from hipcache.clang.frontend import FrontEnd
from hipcache.driver_header import header
from hipcache.driver_header.entry import ENOUGH
from hipcache.execution.session import Session

# One use in so many is compared of a PCH file that never was.
_NEW = 8
# Of 256 passes that would wait for comparisons, so many begin one.
_AGAIN = 16


class Turn(Enum):
    USE = auto()
    COMPARE = auto()
    WAIT = auto()  # others are being compared


@dataclass(frozen=True)
class Trust:
    """`shelf`: that of the headers."""

    session: Session
    shelf: Shelf
    _off: dict[str, bool] = field(default_factory=dict)
    _comparing: dict[str, threading.Event] = field(default_factory=dict)

    @property
    def _shelves(self) -> tuple[Shelf, Shelf]:
        return self.session.shelves.near, self.shelf

    def is_off(self, front: FrontEnd) -> bool:
        key = header.off_key(front).digest
        if key not in self._off:
            self._off[key] = any(shelf.actions.get([key]) for shelf in self._shelves)
        return self._off[key]

    def end(self, front: FrontEnd, why: str) -> None:
        """No pass of this compiler is to use it any more."""
        key = header.off_key(front).digest
        self._off[key] = True
        self.session.notes.append(f"the precompiled header is switched off for this compiler: {why}")
        for shelf in self._shelves:
            shelf.put(key, json.dumps({"outputs": [], "why": why}).encode())

    def turn(self, front: FrontEnd, *, is_compared: bool) -> Turn:
        """What a pass is to do; `told` must follow if it is to compare. `is_compared`: has this PCH file been?"""
        key, source = header.trust_key(front).digest, self._source(front)
        _, same = self._read(key)
        if len(same) >= ENOUGH or source in same:
            checks = self.session.context.preambles
            checks = checks if is_compared else min(checks, _NEW)
            return Turn.USE if int.from_bytes(os.urandom(4), "little") % checks else Turn.COMPARE
        with self.session.context.store.lock(key):
            begun, same = self._read(key)
            # A comparison may have been interrupted.
            if (source in begun or len(begun) >= ENOUGH) and os.urandom(1)[0] >= _AGAIN:
                return Turn.WAIT
            if key not in self._comparing or self._comparing[key].is_set():
                self._comparing[key] = threading.Event()
            self._write(key, begun | {source}, same)
        return Turn.COMPARE

    def has_waited(self, front: FrontEnd) -> bool:
        """Wait for a comparison by another pass of this compile; False if there is none."""
        begun = self._comparing.get(header.trust_key(front).digest)
        return begun is not None and not begun.is_set() and begun.wait()

    def told(self, front: FrontEnd, *, same: bool) -> None:
        """The comparison has ended: it came out the same, or did not tell."""
        key, source = header.trust_key(front).digest, self._source(front)
        try:
            if len(self._read(key)[1]) < ENOUGH:
                with self.session.context.store.lock(key):
                    begun, equal = self._read(key)
                    self._write(key, begun if same else begun - {source}, equal | {source} if same else equal)
        finally:
            if key in self._comparing:
                self._comparing[key].set()

    def _source(self, front: FrontEnd) -> str:
        try:
            return self.session.files.digest(front.source)[1]
        except OSError:
            return ""

    def _read(self, key: str) -> tuple[set[str], set[str]]:
        begun, same = set[str](), set[str]()
        for shelf in self._shelves:
            record = shelf.actions.get([key]).get(key)
            try:
                found = json.loads(record) if record else {}
                lists = found.get("begun", []), found.get("same", [])
            except (ValueError, AttributeError, RecursionError):
                continue
            if all(isinstance(sources, list) and all(isinstance(one, str) for one in sources) for sources in lists):
                begun, same = begun.union(lists[0]), same.union(lists[1])
        return begun, same

    def _write(self, key: str, begun: set[str], same: set[str]) -> None:
        text = json.dumps({"outputs": [], "begun": sorted(begun), "same": sorted(same)})
        for shelf in self._shelves:
            shelf.put(key, text.encode())
