"""Byte-range locks of the kernel, held by an open file ("open file description locks", fcntl(2), Linux).

One byte of one empty file is one lock, so any number of keys needs no lock files and leaves none behind. The kernel
drops a lock when the last descriptor of that open file is closed, that is also when the process is killed.

Rejected: classic POSIX locks (the process holds them: threads do not exclude each other, and closing *any*
descriptor of the file drops them); flock(2) (a file for each key, and somebody has to delete them); a file made with
O_EXCL (stays when its process is killed, and then one has to guess its age).

The kernel finds no deadlocks among these locks: who holds one key must not wait for another one.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# l_type, l_whence, l_start, l_len, l_pid of `struct flock`; native alignment, and l_pid has to be 0.
_FLOCK = struct.Struct("hhqqi4x")

# Offsets of key locks are below 2**62, so that offset + length never exceeds what off_t can hold.
UPKEEP = 1 << 62


def key_offset(key: str) -> int:
    """The byte that stands for `key` (hexadecimal): its first 62 bits. Two keys that share one only wait needlessly."""
    return int(key[:16], 16) >> 2


def try_lock(fd: int, offset: int) -> bool:
    """Lock one byte now, or return False because another open file holds it.

    Raises OSError where there are no such locks: ENOLCK, EINVAL, EOPNOTSUPP, EBADF for a read-only `fd`."""
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def wait_lock(fd: int, offset: int, *, shared: bool = False) -> None:
    """Lock one byte, however long it takes; signal handlers run meanwhile, so Ctrl-C raises. OSError as `try_lock`."""
    kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
    fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, _FLOCK.pack(kind, os.SEEK_SET, offset, 1, 0))


def unlock(fd: int, offset: int) -> None:
    """Closing would not do if a child process that was forked meanwhile shares the open file."""
    with suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, offset, 1, 0))


def open_file(path: str) -> int:
    """A descriptor for locks on `path`, which is created. Raises OSError."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


@contextmanager
def held(fd: int, offset: int, *, wait: bool = True) -> Iterator[bool | None]:
    """Hold one byte of `fd`, an open file of our own, which is closed at the end.

    Gives False: held at once, or there are no locks here; True: held after a wait; None: not held, because it is
    taken and `wait` is False.
    """
    waited: bool | None = False
    try:
        with suppress(OSError):
            if not try_lock(fd, offset):
                if wait:
                    wait_lock(fd, offset)
                waited = wait or None
        yield waited
    finally:
        unlock(fd, offset)
        os.close(fd)
