"""The sockets of storage helpers, in the user's runtime directory, and the lock beside each."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

_BACKLOG = 512


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
    import socket  # who only tells a helper something does without the module (`notice`)

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
    directory = os.open(os.path.dirname(place), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        action(f"/proc/self/fd/{directory}/{os.path.basename(place)}")
    finally:
        os.close(directory)


def wait_for(place: str) -> None:
    """Another process or thread makes the socket, within a moment (it may be there, and nobody listen so far); or a
    helper has just ended, and holds the lock still."""
    for _ in range(20):
        time.sleep(0.01)
        if os.path.exists(place):
            return
