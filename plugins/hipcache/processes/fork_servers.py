"""The loaded programs of one compile, which begin anew for each command (`native/fork_server.c`)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from hipcache.base.errors import LibraryError
from hipcache.base.native import ForkServer

# What a program's loader and C library heed before its `main` runs.
_OF_LOADER = ("LD_", "GLIBC_", "MALLOC_")


class ForkServers:
    """`repeats`: will a program that gets these words surely be started again? Others are loaded so from their second
    start on."""

    def __init__(self, repeats: Callable[[Sequence[str]], bool]) -> None:
        self._repeats = repeats
        self._starts = Counter[object]()
        self._found: dict[object, ForkServer | None] = {}
        self._lock = threading.Lock()

    def of(self, argv: Sequence[str], environ: Mapping[str, str]) -> ForkServer | None:
        """That of a program which is named by its path. None if there is none, or if the user has libraries loaded into
        it, which might not bear that."""
        if not argv[0].startswith("/") or "LD_PRELOAD" in environ:
            return None
        key = argv[0], *(item for item in environ.items() if item[0].startswith(_OF_LOADER))
        with self._lock:
            self._starts[key] += 1
            if key not in self._found and (self._starts[key] > 1 or self._repeats(argv)):
                try:
                    self._found[key] = ForkServer(argv[0], environ)
                except (OSError, LibraryError):
                    self._found[key] = None
            return self._found.get(key)

    def drop(self, server: ForkServer) -> None:
        """Use it no more: it did not begin."""
        with self._lock:
            for key, found in self._found.items():
                if found is server:
                    self._found[key] = None

    def close(self) -> None:
        """Ends them all, when no process is left that they began."""
        with self._lock:
            for server in filter(None, self._found.values()):
                server.close()
            self._found = dict.fromkeys(self._found)
