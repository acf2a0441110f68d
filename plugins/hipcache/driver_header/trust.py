"""Which passes are compared, with the precompiled header and without, before it is trusted.

A header comes to trust for a compiler, a standard of C++ and a side (device or host) when three sources came out the
same, byte for byte: the bitcode of a front end, the object of the host, the messages, the files that were read. (An
edited source is another one. Of each source one architecture is compared, and the others may then use it: that clang
reads PCH files well does not depend on the architecture. But each PCH file is compared once, when it is made.) After
that one use in so many (HIPCACHE_PREAMBLE_CHECKS) is compared for ever. A difference ends the use for that compiler,
unless the compiler differs from itself.

The record is JSON {"outputs": [], "begun": [source, ...], "same": [source, ...]}.
"""

from __future__ import annotations

import json
import os
from enum import Enum, auto

from hipcache.driver_header import header
from hipcache.execution.session import Session
from hipcache.planning.frontend import FrontEnd
from hipcache.values import dataclass, field

ENOUGH = 3
# Of 256 passes that would wait for comparisons, so many begin one.
_AGAIN = 16


class Turn(Enum):
    USE = auto()
    COMPARE = auto()
    WAIT = auto()  # others are being compared


@dataclass(frozen=True)
class Trust:
    session: Session
    _off: dict[str, bool] = field(default_factory=dict)

    def is_off(self, front: FrontEnd) -> bool:
        key = header.off_key(front).digest
        if key not in self._off:
            self._off[key] = bool(self.session.shelves.near.actions.get([key]))
        return self._off[key]

    def end(self, front: FrontEnd, why: str) -> None:
        """No pass of this compiler is to use it any more."""
        key = header.off_key(front).digest
        self._off[key] = True
        self.session.notes.append(f"the precompiled header is switched off for this compiler: {why}")
        self.session.shelves.near.put(key, json.dumps({"outputs": [], "why": why}).encode())

    def turn(self, front: FrontEnd, *, is_new: bool = False) -> Turn:
        """What a pass is to do. `is_new`: the header was made just now."""
        key = header.trust_key(front).digest
        begun, same = self._read(key)
        if len(same) >= ENOUGH:
            checks = self.session.engine.preambles
            return Turn.COMPARE if is_new or int.from_bytes(os.urandom(4), "little") % checks == 0 else Turn.USE
        source = self._source(front)
        if source in same and not is_new:
            return Turn.USE
        with self.session.engine.store.lock(key):
            begun, same = self._read(key)
            enough = source in begun or len(begun) >= ENOUGH
            if enough and not is_new and os.urandom(1)[0] >= _AGAIN:  # a comparison may have been interrupted
                return Turn.WAIT
            self._write(key, begun | {source}, same)
        return Turn.COMPARE

    def told(self, front: FrontEnd, *, same: bool) -> None:
        """The comparison has ended: it came out the same, or did not tell."""
        key, source = header.trust_key(front).digest, self._source(front)
        if len(self._read(key)[1]) >= ENOUGH:
            return
        with self.session.engine.store.lock(key):
            begun, equal = self._read(key)
            self._write(key, begun if same else begun - {source}, equal | {source} if same else equal)

    def _source(self, front: FrontEnd) -> str:
        try:
            return self.session.files.digest(front.source)[1]
        except OSError:
            return ""

    def _read(self, key: str) -> tuple[set[str], set[str]]:
        record = self.session.shelves.near.actions.get([key]).get(key)
        try:
            found = json.loads(record) if record else {}
            return set(found.get("begun", [])), set(found.get("same", []))
        except (ValueError, TypeError, AttributeError):
            return set(), set()

    def _write(self, key: str, begun: set[str], same: set[str]) -> None:
        text = json.dumps({"outputs": [], "begun": sorted(begun), "same": sorted(same)})
        self.session.shelves.near.put(key, text.encode())
