"""Starts the storage helper in the order that takes the least time: a connection first, then what goes over it."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Mapping

from hipcache import config as settings
from hipcache.config import Config
from hipcache.errors import ConfigError, StoreError
from hipcache.helper import connecting
from hipcache.helper.connecting import Begun

DOOR = "--door"


def serve(words: list[str], environ: Mapping[str, str]) -> int:
    """`words`: descriptors of the lock and the socket, and where the socket is; DOOR before that: it is a door."""
    gc.disable()  # nothing of what is loaded goes again
    try:
        config = settings.load(environ)
        _serve(words, environ, config, connecting.begin(config.remote))
    except (ConfigError, StoreError, OSError):
        return 1
    os.close(int(words[-3]))
    # Threads that hang in a library must not hold the process.
    os._exit(0)


def _serve(words: list[str], environ: Mapping[str, str], config: Config, begun: Begun) -> None:
    """Raises StoreError, OSError."""
    from hipcache.helper.compilers import Compilers
    from hipcache.helper.process import Helper
    from hipcache.store.opening import open_store

    gc.freeze()
    gc.enable()
    lock, listening, place = int(words[-3]), int(words[-2]), words[-1]
    store = open_store(config)
    helper = Helper(config, store, begun, Compilers(store, environ).begin)
    if words[0] == DOOR:
        helper.serve_door(socket.socket(fileno=listening), place, lock, environ)
    else:
        with socket.socket(fileno=listening) as listener:
            helper.run({place: listener}, place)
