"""Tells the storage helper that something is queued, where there is one: a container may end right after its build.

Not by `client`: that takes longer to load than a hit may take, and so does Python's module `socket`.
"""

from __future__ import annotations

import _socket
from contextlib import suppress

from hipcache.remote import queue, sockets


def give(place: str) -> None:
    """`place`: of the helper's socket. Where none listens there, what is queued waits for the next helper."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)
    try:
        with suppress(OSError):
            sockets.near(place, connection.connect)
            connection.send(queue.TOLD)
    finally:
        connection.close()
