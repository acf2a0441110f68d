"""Limits how many compilers run at once: one limit for all hipcache processes of a user, or make's jobserver.

A slot is one byte of a file in the user's runtime directory, locked while a compiler runs (`base/locks.py`): the
kernel frees it when its process dies. There are as many bytes as compilers may run. The file's content tells who holds
each: eight bytes with the process id, little-endian. The slots of a process that is stopped (Ctrl-Z in another
terminal) would hold up every other one: each has a second byte behind all the first ones, its substitute meanwhile,
that one has a third, and so on. A process that the kernel does not confirm (`locks.is_held_by`: in another container,
say) may be stopped as well: after a while its slots have substitutes, too.

Where MAKEFLAGS names a jobserver (GNU make manual, "POSIX Jobserver Interaction"; ninja 1.13 and later offer one too),
it decides instead: the process owns one job already, each further one takes a token and gives it back. Where this
process may not use it (make closes its pipe for a recipe without `+`) the slots decide. With an executor both do.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from hipcache.base import locks

_PAUSE = 0.01  # seconds
_CHECK = 1.0  # seconds between two checks whether those who hold the slots are stopped
_SUBSTITUTES = 100  # of one slot; if they are all taken, too, a compiler runs without one
_HOLDER = struct.Struct("<Q")


Check = Callable[[], None]


class Slots(Protocol):
    """`hold` waits until one more compiler may run, and counts it as running until it ends. `check` is called while it
    waits, and raises if the wait has become pointless: a process that was told to end must not take a slot that others
    wait for. `attempt` is `hold` without the wait: None if no more compiler may run now."""

    limit: int

    def hold(self, check: Check = lambda: None) -> AbstractContextManager[None]: ...

    def attempt(self) -> AbstractContextManager[object] | None: ...


class SharedSlots:
    """`limit` slots for all processes of this user. Without a place for the file each process counts for itself.
    `name`: of what the slots are of."""

    def __init__(self, limit: int, directory: str, name: str = "slots") -> None:
        self.limit = limit
        self._path = os.path.join(directory, f"{name}-{limit}") if directory else ""
        self._own = threading.BoundedSemaphore(limit)
        self._next_check = 0.0
        # The process that holds a byte, and since when it counts as running (seconds of the monotonic clock).
        self._holders: dict[int, tuple[int, float]] = {}

    @contextlib.contextmanager
    def hold(self, check: Check = lambda: None) -> Iterator[None]:
        with self._own:
            try:
                fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError:
                yield
                return
            try:
                self._take(fd, check)
                yield
            finally:
                os.close(fd)

    def attempt(self) -> AbstractContextManager[object] | None:
        if not self._own.acquire(blocking=False):
            return None
        with contextlib.ExitStack() as held:
            held.callback(self._own.release)
            with contextlib.suppress(OSError):  # else this process counts for itself
                fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                held.callback(os.close, fd)
                if not self._try(fd):
                    return None
            return held.pop_all()

    def _take(self, fd: int, check: Check) -> None:
        with contextlib.suppress(OSError):  # a file system without such locks: this process counts for itself
            while not self._try(fd):
                check()
                time.sleep(_PAUSE)

    def _try(self, fd: int) -> bool:
        if any(self._lock(fd, slot) for slot in range(self.limit)):
            return True
        now = time.monotonic()
        if now < self._next_check:
            return False
        self._next_check = now + _CHECK
        return any(self._substitute(fd, slot, now) for slot in range(self.limit))

    def _substitute(self, fd: int, byte: int, now: float) -> bool:
        """Take the place of a holder that is stopped, or of its substitute's if that is stopped, too."""
        for _ in range(_SUBSTITUTES):
            if not self._is_stopped(fd, byte, now):
                return False
            byte += self.limit
            if self._lock(fd, byte):
                return True
        return True

    def _lock(self, fd: int, byte: int) -> bool:
        if not locks.try_lock(fd, byte):
            return False
        os.pwrite(fd, _HOLDER.pack(os.getpid()), byte * _HOLDER.size)
        return True

    def _is_stopped(self, fd: int, byte: int, now: float) -> bool:
        """Is the holder of the byte stopped, as far as can be known?"""
        row = os.pread(fd, _HOLDER.size, byte * _HOLDER.size)
        holder = _HOLDER.unpack(row)[0] if len(row) == _HOLDER.size else 0
        if locks.is_stopped(holder):
            return True
        known, since = self._holders.get(byte, (holder, now))
        if known != holder:
            since = now
        elif now - since >= locks.UNCONFIRMED:
            if not locks.is_held_by(holder, fd, byte):
                return True
            since = now
        self._holders[byte] = holder, since
        return False


class Jobserver:
    """GNU make's: the first job is our own, each other one costs a token, a byte read from the pipe."""

    def __init__(self, read: int, write: int, limit: int) -> None:
        self.limit = limit
        self._read, self._write = read, write
        self._own = threading.Lock()

    @contextlib.contextmanager
    def hold(self, check: Check = lambda: None) -> Iterator[None]:
        while True:
            check()
            if self._own.acquire(blocking=False):
                try:
                    yield
                finally:
                    self._own.release()
                return
            token = self._token()
            if token:
                try:
                    yield
                finally:
                    os.write(self._write, token)
                return
            time.sleep(_PAUSE)

    def attempt(self) -> AbstractContextManager[object] | None:
        held = contextlib.ExitStack()
        if self._own.acquire(blocking=False):
            held.callback(self._own.release)
            return held
        token = self._token()
        if token:
            held.callback(os.write, self._write, token)
        return held if token else None

    def _token(self) -> bytes:
        try:
            return os.read(self._read, 1)
        except BlockingIOError:
            return b""


class Both:
    """A token of make's and a slot. The slot comes first: who has a token of the pipe never waits for one."""

    def __init__(self, slots: SharedSlots, jobserver: Jobserver) -> None:
        self.limit = slots.limit
        self._slots, self._jobserver = slots, jobserver

    @contextlib.contextmanager
    def hold(self, check: Check = lambda: None) -> Iterator[None]:
        with self._slots.hold(check), self._jobserver.hold(check):
            yield

    def attempt(self) -> AbstractContextManager[object] | None:
        with contextlib.ExitStack() as held:
            for limiter in (self._slots, self._jobserver):
                taken = limiter.attempt()
                if taken is None:
                    return None
                held.enter_context(taken)
            return held.pop_all()


def open_slots(environ: Mapping[str, str], limit: int, directory: str, *, elsewhere: bool = False) -> Slots:
    """The jobserver if there is one that this process may use, else the user's slots, of which `limit` exist. Both
    where actions may run `elsewhere`: then `make -j64` says how much may be under way, not how many compilers this
    machine can run."""
    jobserver = _jobserver(environ.get("MAKEFLAGS", ""), limit)
    slots = SharedSlots(limit, directory)
    return Both(slots, jobserver) if jobserver and elsewhere else jobserver or slots


def _jobserver(flags: str, limit: int) -> Jobserver | None:
    found = re.findall(r"--jobserver-(?:auth|fds)=(\S+)", flags)
    if not found:
        return None
    try:
        if found[-1].startswith("fifo:"):
            path = found[-1][len("fifo:") :]
            read = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            return Jobserver(read, os.open(path, os.O_WRONLY | os.O_CLOEXEC), limit)
        reader, writer = (int(part) for part in found[-1].split(","))
        if not all(stat.S_ISFIFO(os.fstat(fd).st_mode) for fd in (reader, writer)):
            return None  # make has closed its pipe, and the numbers are those of other files now
        # Opened anew, so that our non-blocking reads do not make make's own pipe non-blocking.
        read = os.open(f"/proc/self/fd/{reader}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        return Jobserver(read, writer, limit)
    except (OSError, ValueError):
        return None
