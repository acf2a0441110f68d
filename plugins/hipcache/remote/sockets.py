"""The sockets of storage helpers, in the user's runtime directory: the name of each, which is a digest of all that the
helper is made from; the lock beside it; which of the queue is its own. A hit loads this, and so not Python's module
`socket`, which takes longer to load than a hit may take."""

from __future__ import annotations

import _socket
import fcntl
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import hipcache
from hipcache.base.errors import ConfigError
from hipcache.base.files import Descriptor
from hipcache.base.keys import digest_bytes
from hipcache.base.paths import runtime_directory
from hipcache.base.shared import CREDENTIALS
from hipcache.config import Config
from hipcache.remote import address, queue
from hipcache.remote.address import parse

if TYPE_CHECKING:
    import socket

_BACKLOG = 512


def place_of(config: Config, environ: Mapping[str, str]) -> str:
    """Of the socket. Raises OSError."""
    directory = runtime_directory(environ)
    if not directory:
        raise OSError("no directory is available for its socket")
    named = sorted(f"{name}={value}" for name, value in environ.items() if name.upper().startswith(CREDENTIALS))
    made_from = (
        *(hipcache.__version__, config.dir, config.max_size, config.umask, config.key, config.namespace),
        *(config.remote, config.executor),
        address.file_states(config),
    )
    return f"{directory}/remote-{digest_bytes(repr((*made_from, named)).encode())[:16]}"


def destination_of(config: Config) -> str:
    """Where results go that are queued under these settings: the servers that may be written, and what separates
    results on one. Without other options: with a new token, what waits is still for the same server."""
    servers = []
    for text in config.remote:
        with suppress(ConfigError):
            found = parse(text)
            if found.writes:
                servers.append((found.scheme, found.host, found.path, found.endpoint))
    return digest_bytes(repr((sorted(servers), config.namespace, str(config.key or ""))).encode())[:16]


def notify(place: str) -> None:
    """Tell the helper that something is queued: a container may end right after its build. Where none listens there, it
    waits for the next helper."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)
    try:
        with suppress(OSError):
            near(place, connection.connect)
            connection.send(queue.TOLD)
    finally:
        connection.close()


class Lock:
    """Of the helper at that place, who holds it for as long as it lives. Raises OSError."""

    def __init__(self, place: str) -> None:
        self._file = os.open(f"{place}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def fileno(self) -> int:
        return self._file

    def take(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *raised: object) -> None:
        os.close(self._file)


def bound(place: str) -> socket.socket:
    """A socket that listens there, for this user alone; of who has the lock. Raises OSError."""
    import socket  # who only tells a helper something does without

    with suppress(FileNotFoundError):
        os.unlink(place)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old = os.umask(0o177)
    try:
        near(place, listener.bind)
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(old)
    return listener


def identity(place: str) -> tuple[int, int]:
    """Another one where there is another socket: inodes are given again at once. Raises OSError."""
    found = os.stat(place)
    return found.st_ino, found.st_mtime_ns


def near(place: str, action: Callable[[str], object]) -> None:
    """Do it with a name of the socket that is short enough for one, however long the path is. Raises OSError."""
    with Descriptor(os.open(os.path.dirname(place), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
        action(f"/proc/self/fd/{directory}/{os.path.basename(place)}")


def wait_for(place: str) -> None:
    """Another process or thread makes the socket, within a moment (it may be there, and nobody listen so far); or a
    helper has just ended, and holds the lock still."""
    for _ in range(20):
        time.sleep(0.01)
        if os.path.exists(place):
            return
