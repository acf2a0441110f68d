"""Fetches the commands that stand behind one in the list of a build, when compiles ask for one after the other.

A build tool runs its commands about in the order of their list, and each that asks alone waits for two round trips. So
who asks second within LATELY seconds, in a directory with a compile_commands.json, has a window of commands fetched,
from its own one on, in the same two round trips; the next window is twice as large. One that asks for a command of a
window that is on its way waits for that. A build of one file asks once: nothing is fetched for it.

Commands that begin together ask in any order. So a window ends where another one begins: else who asks with the place
before that one's would have all of it fetched once more, at the same time.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence

from hipcache.remote.helper import prefetch
from hipcache.remote.helper.prefetch import Listed
from hipcache.remote.helper.question import Asked
from hipcache.values import dataclass, field

LIST = "compile_commands.json"
# Seconds: between two who ask; for a window that another one fetches; after which a window says nothing any more.
LATELY, PATIENCE, LASTING, TICK = 5.0, 1.0, 60.0, 0.1
_FIRST, _MOST = 64, 512
_MOST_BYTES = 64 << 20
_MOST_LISTS = 16


@dataclass
class Window:
    """Commands that are on their way, by their place in the list."""

    places: range
    begun: float
    done: threading.Event = field(default_factory=threading.Event)


@dataclass
class _List:
    """`state`: of the file; `places`: of sources, as the list and as a command may name them."""

    state: tuple[int, ...]
    entries: list[dict[str, object]]
    places: dict[str, int]
    asked: float = float("-inf")
    windows: list[Window] = field(default_factory=list)


@dataclass
class Neighbours:
    """`fetch` has commands fetched for who has asked."""

    fetch: Callable[[Asked, Sequence[Listed], Callable[[], object]], object]
    clock: Callable[[], float] = time.monotonic
    _lists: dict[str, _List] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def come(self, asked: Asked, alive: Callable[[], object]) -> bool:
        """Has the command come with others, or been looked for with them? Raises nothing but what `alive` does."""
        window, mine = self._window(asked)
        if window is None:
            return False
        if mine:
            try:
                entries = self._lists[asked.cwd].entries
                self.fetch(asked, prefetch.chosen(entries[place] for place in window.places), alive)
            except (ValueError, KeyError, TypeError, AttributeError):
                pass  # no list of commands
            finally:
                window.done.set()
        end = self.clock() + PATIENCE
        while not window.done.wait(TICK) and self.clock() < end:
            alive()
        return window.done.is_set()

    def _window(self, asked: Asked) -> tuple[Window | None, bool]:
        """That the command is in, and whether it is to be fetched by who asks."""
        with self._lock:
            known = self._known(asked.cwd)
            place = _place(known, asked) if known else None
            if known is None or place is None:
                return None, False
            known.windows = [one for one in known.windows if self.clock() - one.begun < LASTING]
            for window in known.windows:
                if place in window.places:
                    return window, False
            lately, known.asked = self.clock() - known.asked < LATELY, self.clock()
            if not lately:
                return None, False
            size = min(_FIRST << sum(len(one.places) >= _FIRST for one in known.windows), _MOST)
            behind = (one.places.start for one in known.windows if one.places.start > place)
            end = min(place + size, len(known.entries), *behind)
            known.windows.append(Window(range(place, end), self.clock()))
            return known.windows[-1], True

    def _known(self, directory: str) -> _List | None:
        path = os.path.join(directory, LIST)
        try:
            found = os.stat(path)
            state = found.st_ino, found.st_size, found.st_mtime_ns
            known = self._lists.get(directory)
            if known is None or known.state != state:
                known = self._read(path, directory, state)
                while len(self._lists) >= _MOST_LISTS:
                    del self._lists[next(iter(self._lists))]
                self._lists[directory] = known
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return known

    @staticmethod
    def _read(path: str, directory: str, state: tuple[int, ...]) -> _List:
        if state[1] > _MOST_BYTES:
            return _List(state, [], {})
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            entries = json.load(file)
        places: dict[str, int] = {}
        for place, entry in enumerate(entries):
            places.setdefault(os.path.join(directory, str(entry["file"])), place)
        return _List(state, entries, places)


def _place(known: _List, asked: Asked) -> int | None:
    named = (os.path.join(asked.cwd, word) for word in asked.argv[1:] if not word.startswith("-"))
    return next((known.places[path] for path in named if path in known.places), None)
