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
    """`repeats(argv)`: will `argv[0]` surely be started again in this compile? Then it is loaded at its first start,
    others at their second."""

    def __init__(self, repeats: Callable[[Sequence[str]], bool]) -> None:
        self._repeats = repeats
        self._starts = Counter[object]()
        self._found: dict[object, ForkServer | None] = {}
        self._made: list[ForkServer] = []
        self._closed = False
        self._lock = threading.Lock()

    def of(self, argv: Sequence[str], directory: str, environ: Mapping[str, str]) -> ForkServer | None:
        """The server of `argv[0]`, loaded now if it is due. None without an absolute path, if it cannot be, or if the
        user has the loader bring more in (LD_PRELOAD, LD_AUDIT ...), which may not bear a fork."""
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
                    pass  # the program is started each time
            return self._found.get(key)

    def drop(self, server: ForkServer) -> None:
        """Ask it no more: a process that it was asked for did not begin. Those that it began go on."""
        with self._lock:
            self._found = {key: None if found is server else found for key, found in self._found.items()}

    def close(self) -> None:
        """Ends the servers, and what they began and still runs: for when nothing of it is wanted."""
        with self._lock:
            self._closed = True
            self._found = {}
            while self._made:
                self._made.pop().close()
