"""Keys that are held longer than the work on them takes."""

from __future__ import annotations

import threading
from contextlib import ExitStack


class HeldKeys:
    """At the end, however it comes, all of them are free: also those that are taken later."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: list[ExitStack] | None = []

    def __enter__(self) -> HeldKeys:
        return self

    def __exit__(self, *error: object) -> None:
        with self._guard:
            held, self._held = self._held or [], None
        for one in held:
            one.close()

    def add(self, key: ExitStack) -> ExitStack:
        with self._guard:
            if self._held is not None:
                self._held.append(key)
                return key
        key.close()
        return key
