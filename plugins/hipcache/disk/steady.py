"""The files of a store, for many names in a row: the directories just below STORE/v1 are looked up once.

A put of one entry is some 45 calls of the kernel, and most of them look up the directories of a name anew. Who holds
one open still writes into it when another process has moved it away: so this is for as long as nobody may, or for
what is looked for by its name afterwards.
"""

from __future__ import annotations

import os

from hipcache.disk.confined import Confined
from hipcache.disk.steps import step


class Steady(Confined):
    def __init__(self, confined: Confined) -> None:
        super().__init__(confined.root, confined.umask)
        self._open: dict[str, int] = {}

    def __enter__(self) -> Steady:
        return self

    def __exit__(self, *raised: object) -> None:
        for directory in self._open.values():
            os.close(directory)

    def _directory(self, parts: list[str]) -> int:
        if not parts:
            return super()._directory(parts)
        if parts[0] not in self._open:
            self._open[parts[0]] = super()._directory(parts[:1])
        directory = os.dup(self._open[parts[0]])
        for part in parts[1:]:
            directory = step(directory, part)
        return directory
