"""An action cache that notes what it is asked for and what is put into it: so that it can be looked for elsewhere, and
sent there."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from hipcache.storage import ActionCache
from hipcache.values import dataclass, field


@dataclass(frozen=True)
class NotedActions:
    """`put_keys`: of the records that were put, `got_keys`: all that were asked for; both in that order, once each."""

    near: ActionCache
    put_keys: dict[str, None] = field(default_factory=dict)
    got_keys: dict[str, None] = field(default_factory=dict)
    _of_thread: threading.local = field(default_factory=threading.local)

    def get(self, keys: Iterable[str]) -> dict[str, bytes]:
        wanted = list(keys)
        found = self.near.get(wanted)
        self.got_keys.update(dict.fromkeys(wanted))
        noted = getattr(self._of_thread, "noted", None)
        if noted is not None:
            noted.update({key: found.get(key) for key in wanted})
        return found

    def put(self, key: str, record: bytes) -> None:
        self.near.put(key, record)
        self.put_keys[key] = None

    @contextmanager
    def noting(self) -> Iterator[dict[str, bytes | None]]:
        """The keys that this thread asks for meanwhile, and the records that it gets."""
        noted: dict[str, bytes | None] = {}
        self._of_thread.noted = noted
        try:
            yield noted
        finally:
            self._of_thread.noted = None
