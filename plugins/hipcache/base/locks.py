"""Byte-range locks of the kernel, held by an open file ("open file description locks", fcntl(2), Linux).

One byte of one file is one lock, so any number of keys needs no lock files and leaves none behind. The kernel drops a
lock when the last descriptor of that open file is closed, that is also when the process is killed. But not when it is
stopped (Ctrl-Z in another terminal), and who waits for that one must not wait for ever. So the file's content tells
who locked a byte last: a table of 256 rows (`byte u64, process id u64`, little-endian), the row chosen by the byte.
Two keys that share a row overwrite each other, then a stopped holder may go unseen: rare, and it ends with the stop.

Who may open the file can hold each lock, and also a lock for reading keeps others out. So who may only read a store
gets no lock file (confined.py), and every wait has a bound, after which the compile goes on without the lock. The row
may be a lie in a store that others write, and names a process that we cannot see if that is in another container or on
another machine. So who waits asks the kernel: /proc/PID/fdinfo lists the locks of an open file (proc_pid_fdinfo(5)),
and only this user's own processes can be asked, or by root all. A process of this user that holds the byte is one more
compile of theirs, and worth a long wait; of all others the wait is a short one. Some of its own user's it does not
show, those of another group among them: where nobody else can write the file, their rows are believed.

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
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_HOLDER = struct.Struct("<QQ")
_ROWS = 256
_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.02  # seconds
_CHECK = 1.0  # seconds until the lock is first checked for a stopped holder, and between such checks
_UNKNOWN = 5.0  # seconds to wait for a holder that has not written its row
# For a process that the kernel does not confirm: about what a unit takes. Who waits as long as the work would take, and
# then does it, has lost at most as much again.
UNCONFIRMED = 10.0

# l_type, l_whence, l_start, l_len, l_pid of `struct flock`; native alignment, and l_pid has to be 0.
_FLOCK = struct.Struct("hhqqi4x")

# Offsets of key locks are below 2**62, so that offset + length never exceeds what off_t can hold.
UPKEEP = 1 << 62


def key_offset(key: str) -> int:
    """The byte that stands for `key` (hexadecimal): its first 62 bits. Two keys that share one only wait needlessly."""
    return int(key[:16], 16) >> 2


def try_lock(fd: int, offset: int, *, shared: bool = False) -> bool:
    """Lock one byte now, or return False because another open file holds it.

    Raises OSError if there are no such locks: ENOLCK, EINVAL, EOPNOTSUPP, EBADF for a read-only `fd`."""
    kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, offset, 1, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def mark_alive(fd: int) -> None:
    """Let others see that the maker of the file `fd` lives, as long as it is open."""
    with suppress(OSError):
        try_lock(fd, 0)


def wait_lock(
    fd: int,
    offset: int,
    *,
    shared: bool = False,
    patience: float,
    longest_pause: float = _LONGEST_PAUSE,
    give_up: Callable[[float], bool] = lambda waited: False,
) -> None:
    """Lock one byte within `patience` seconds, or until `give_up` says so (it is asked about once a second, with the
    seconds waited so far): then TimeoutError. Else OSError as `try_lock`."""
    # Not F_OFD_SETLKW: a thread cannot be taken out of it.
    start, pause, next_check = time.monotonic(), _FIRST_PAUSE, _CHECK
    while not try_lock(fd, offset, shared=shared):
        waited = time.monotonic() - start
        if waited >= patience or (waited >= next_check and give_up(waited)):
            if try_lock(fd, offset, shared=shared):  # let go of since; to ask takes a while
                return
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        if waited >= next_check:
            next_check += _CHECK
        time.sleep(min(pause, max(0.0, patience - waited)))
        pause = min(pause * 2, longest_pause)


def unlock(fd: int, offset: int) -> None:
    """Closing would not do if a child process that was forked meanwhile shares the open file."""
    with suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, offset, 1, 0))


@contextmanager
def held(
    fd: int, offset: int, *, wait: bool = True, patience: float, on_timeout: Callable[[float], object] = bool
) -> Iterator[bool | None]:
    """Hold one byte of `fd`, an open file of our own, which is closed at the end.

    Gives False: held at once, or there are no locks here; True: held after a wait, or not held because the one who
    holds it is stopped, does not say who it is, is no process of this user's that the kernel confirms, or has not come
    to its end within `patience` seconds (`on_timeout`, with the seconds waited); None: not held, because it is taken
    and `wait` is False.
    """
    waited: bool | None = False
    begun, doubted = time.monotonic(), 0

    def give_up(seconds: float) -> bool:
        nonlocal doubted
        holder = _holder(fd, offset)
        if not holder:
            return seconds >= _UNKNOWN
        if is_stopped(holder):
            return True
        if seconds < UNCONFIRMED - _CHECK:
            return False
        # Two doubts in a row: it may have let go of the byte just then.
        last, doubted = doubted, 0 if is_held_by(holder, fd, offset) else holder
        return doubted != 0 and last == doubted

    try:
        try:
            if not try_lock(fd, offset):
                waited = wait or None
                if wait:
                    wait_lock(fd, offset, patience=patience, give_up=give_up)
            if waited is not None:
                os.pwrite(fd, _HOLDER.pack(offset, os.getpid()), _row(offset))
        except TimeoutError:
            on_timeout(time.monotonic() - begun)
        except OSError:
            pass  # there are no locks here
        yield waited
    finally:
        unlock(fd, offset)
        os.close(fd)


def is_stopped(pid: int) -> bool:
    """Is the process stopped by a signal (Ctrl-Z), or by a debugger? False for a process that we cannot see."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except (OSError, IndexError):
        return False


def is_held_by(pid: int, fd: int, offset: int) -> bool:
    """Does that process, one of this user's, hold a lock on that byte of the file? One that the kernel does not let us
    ask (of another group: newgrp, sg; or from a user namespace) does if nobody else could have written its row."""
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return False
        try:
            return _lists_lock(pid, fd, offset)
        except PermissionError:
            return not os.fstat(fd).st_mode & 0o077
    except OSError:
        return False


def _lists_lock(pid: int, fd: int, offset: int) -> bool:
    lock = [b"%d" % os.fstat(fd).st_ino, b"%d" % offset]
    for name in os.listdir(f"/proc/{pid}/fdinfo"):
        with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/fdinfo/{name}", "rb") as file:
            # lock: 1: OFDLCK ADVISORY  WRITE -1 fe:00:INODE FIRST LAST
            for line in file:
                if line.startswith(b"lock:") and [line.split()[-3].split(b":")[-1], line.split()[-2]] == lock:
                    return True
    return False


def _row(offset: int) -> int:
    return offset % _ROWS * _HOLDER.size


def _holder(fd: int, offset: int) -> int:
    """The process that locked the byte last, 0 if that is not known."""
    row = os.pread(fd, _HOLDER.size, _row(offset))
    if len(row) < _HOLDER.size:
        return 0
    byte, pid = _HOLDER.unpack(row)
    return int(pid) if byte == offset else 0
