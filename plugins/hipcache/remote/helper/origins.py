"""Notes for `hipcache explain` which remote a whole compile came from: no engine runs that would.

Nobody waits for that: it is done a moment after the answer, and what it takes is loaded then. What an older compile of
the same object was made from stays in its record, so that the next miss is still explained by that.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hipcache.store.local import LocalStore
from hipcache.values import dataclass, field, replace

if TYPE_CHECKING:
    from hipcache.report.history import History
    from hipcache.store.seal import Seal

# Seconds; a build asks for many compiles at once, and its hits are not to share the processor with this.
_LATER = 2.0


@dataclass(frozen=True)
class _Come:
    when: float
    object: str
    command: tuple[str, ...]
    directory: str
    remote: str


@dataclass
class Whence:
    store: LocalStore
    clock: Callable[[], float] = time.time
    _waiting: list[_Come] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, argv: Sequence[str], cwd: str, remote: str) -> None:
        """`argv`: the command; of one that names no output there is no object that could be asked for."""
        path = output_of(argv, cwd)
        if not path:
            return
        with self._lock:
            self._waiting.append(_Come(self.clock(), path, tuple(argv), cwd, remote))
            if len(self._waiting) == 1:
                threading.Thread(target=self._write, daemon=True).start()

    def _write(self) -> None:
        from hipcache.report.history import History
        from hipcache.store.layout import HISTORY

        time.sleep(_LATER)
        with self._lock:
            come, self._waiting = self._waiting, []
        history = History(self.store.notes(HISTORY))
        for one in come:
            _save(history, one, self.store.seal)


def _save(history: History, come: _Come, seal: Seal) -> None:
    from hipcache.report.history import Record
    from hipcache.report.outcome import HIT

    notes = (f"results came from remote '{come.remote}'",)
    seals = seal.namespace, seal.key
    old = history.compared(come.object, *seals)
    units = tuple(replace(unit, hit=True, why=()) for unit in old.units) if old else ()
    variables = old.variables if old else {}
    history.save(
        Record(come.object, come.when, come.command, come.directory, HIT, "", "", notes, variables, units, *seals),
    )


def output_of(argv: Sequence[str], cwd: str) -> str:
    """As the command names it, from the root; empty where it does not."""
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        if word == "-o" and following:
            return os.path.join(cwd, following)
    return ""
