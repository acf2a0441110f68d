"""Starts the storage helper in the order that takes the least time: a connection first, then what goes over it.

On a busy machine that takes seconds. Who asks meanwhile gets signs of life: the native program takes the door away from
a helper that says nothing (`native/helper.c`).
"""

from __future__ import annotations

import gc
import os
import select
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress

from hipcache import config as settings
from hipcache.config import Config
from hipcache.errors import ConfigError, StoreError
from hipcache.remote.helper import connection
from hipcache.remote.helper.connection import Begun

DOOR = "--door"
_TICK = 0.1


def serve(words: list[str], environ: Mapping[str, str]) -> int:
    """`words`: descriptors of the lock and the socket, and where the socket is; DOOR before that: it is a door."""
    gc.disable()  # nothing of what is loaded goes again
    try:
        config = settings.load(environ)
        with socket.socket(fileno=int(words[-2])) as listener:
            greeter = Greeter(listener)
            greeter.thread.start()
            _serve(words, environ, config, connection.begin(config.remote), greeter)
    except (ConfigError, StoreError, OSError):
        return 1
    os.close(int(words[-3]))
    # Threads that hang in a library must not hold the process.
    os._exit(0)


class Greeter:
    """Says to who connects that the helper is at it. `waiting`: those who wait for an answer."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.waiting: list[socket.socket] = []
        self.thread = threading.Thread(target=self._run, daemon=True)
        self._ended = threading.Event()

    def end(self) -> list[socket.socket]:
        self._ended.set()
        self.thread.join()
        return self.waiting

    def _run(self) -> None:
        while not self._ended.wait(_TICK):
            while select.select([self.listener], (), (), 0)[0]:
                self.waiting.append(self.listener.accept()[0])
            for one in self.waiting:
                with suppress(OSError):
                    one.sendall(b"\n")


def _serve(words: list[str], environ: Mapping[str, str], config: Config, begun: Begun, greeter: Greeter) -> None:
    """Raises StoreError, OSError."""
    from hipcache.remote.helper.compilers import Compilers
    from hipcache.remote.helper.origins import Whence
    from hipcache.remote.helper.process import Helper
    from hipcache.store.local import open_store

    gc.freeze()
    gc.enable()
    lock, place = int(words[-3]), words[-1]
    store = open_store(config)
    helper = Helper(config, store, begun, Compilers(store, environ).begin)
    helper.fetches.note = Whence(store).note
    helper.waiting = greeter.end()
    if words[0] == DOOR:
        helper.serve_door(greeter.listener, place, lock, environ)
    else:
        helper.run({place: greeter.listener}, place)
