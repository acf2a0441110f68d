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
        self._made: list[ForkServer] = []
        self._closed = False
        self._lock = threading.Lock()

    def of(self, argv: Sequence[str], directory: str, environ: Mapping[str, str]) -> ForkServer | None:
        """That of a program which is named by its path. None if there is none, or if the user has the loader do more
        than look for libraries: what that brings might not bear it."""
        of_loader = [item for item in environ.items() if item[0].startswith(_OF_LOADER)]
        if not argv[0].startswith("/") or any(name[:3] == "LD_" and name != "LD_LIBRARY_PATH" for name, _ in of_loader):
            return None
        key = argv[0], directory, *of_loader
        with self._lock:
            self._starts[key] += 1
            if key not in self._found and not self._closed and (self._starts[key] > 1 or self._repeats(argv)):
                self._found[key] = None
                try:
                    self._found[key] = server = ForkServer(argv[0], directory, environ)
                    self._made.append(server)
                except (OSError, LibraryError):
                    pass  # each of its processes is started
            return self._found.get(key)

    def drop(self, server: ForkServer) -> None:
        """Use it no more: it did not begin. What it began before goes on."""
        with self._lock:
            self._found = {key: None if found is server else found for key, found in self._found.items()}

    def close(self) -> None:
        """Ends them all, when no process is left that they began."""
        with self._lock:
            self._closed = True
            self._found = {}
            while self._made:
                self._made.pop().close()
