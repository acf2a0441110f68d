"""Connects to remotes before the rest of the storage helper is loaded: that takes as long as a server takes to answer.

The library of a protocol is the larger part of what the helper loads, and a connection is made without Python. So it
comes first; but nobody waits longer than PATIENCE for it, since who asks the helper wants a sign of life.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib import import_module

from hipcache.base.values import dataclass, field
from hipcache.remote import address, backend
from hipcache.remote.address import Address
from hipcache.remote.backend import Backend

PATIENCE = 0.3


@dataclass
class Begun:
    """By the address's text: a protocol that is loaded, with a connection that is being made."""

    backends: dict[str, Backend] = field(default_factory=dict)
    _thread: threading.Thread | None = None

    def wait(self) -> None:
        if self._thread:
            self._thread.join()


def begin(remotes: Sequence[str]) -> Begun:
    """What is wrong with one shows again when it is opened."""
    begun = Begun()

    def run() -> None:
        for text in remotes:
            try:
                backend = connect(address.parse(text))
                backend.begin()
            except Exception:
                continue
            begun.backends[text] = backend

    thread = threading.Thread(target=run, daemon=True)
    begun._thread = thread
    thread.start()
    thread.join(PATIENCE)
    return begun


def connect(found: Address) -> Backend:
    """Raises RemoteError."""
    shown = backend.read_credentials(found)
    connected: Backend = import_module(address.LIBRARIES[found.scheme].module).connect(found, shown)
    return connected
