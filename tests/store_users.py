"""A store that several users of the machine reach, and what they do as themselves."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hipcache.report import statistics
from hipcache.report.outcome import CompileOutcome
from hipcache.store.local import LocalStore

OWNER, OTHER, GROUP = 54321, 54322, 54399
KEY = "0123456789abcdef" * 4
CONTENT = b"content" * 100
PATIENCE = 60  # seconds
FLOCK = struct.Struct("hhqqi4x")


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory of OWNER's that all can reach."""
    top = Path(tempfile.mkdtemp(prefix="hipcache-others-"))
    top.chmod(0o755)
    (top / "home").mkdir()
    os.chown(top / "home", OWNER, GROUP)
    yield top / "home" / "store"
    shutil.rmtree(top)


def as_user(user: int, action: Callable[[], object]) -> int:
    """Do it in a child of that user; its exit status, 99 for an exception."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(GROUP)
            os.setuid(user)
            os._exit(0 if action() in (None, True) else 1)
        except BaseException as error:  # all that a child can tell
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            os._exit(99)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise TimeoutError(f"this takes longer than {PATIENCE} s")


def fill(root: Path, umask: int | None = None) -> None:
    store = LocalStore(root, max_bytes=0, umask=umask)
    store.put_action(KEY, CONTENT)
    store.put_blob(CONTENT)
    with store.lock(KEY):
        pass
    assert statistics.record(root, CompileOutcome("hit"), umask)


def holders(root: Path) -> list[int]:
    """Read locks on everything that can be opened for it; the descriptors."""
    held = []
    for path in [path for path in sorted(root.rglob("*")) if path.is_file()]:
        try:
            fd = os.open(path, os.O_RDONLY)
        except PermissionError:
            continue
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
        fcntl.flock(fd, fcntl.LOCK_EX)
        held.append(fd)
    return held


class Locker:
    """Another user, who holds whatever locks they can get."""

    def __init__(self, user: int, root: Path) -> None:
        ready, told = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            os.setgroups([])
            os.setgid(GROUP)
            os.setuid(user)
            held = holders(root)
            os.write(told, b"%d" % len(held))
            time.sleep(600)
            os._exit(0)
        os.close(told)
        self.locks = int(os.read(ready, 16))
        os.close(ready)

    def __enter__(self) -> Locker:
        return self

    def __exit__(self, *error: object) -> None:
        os.kill(self._pid, 9)
        os.waitpid(self._pid, 0)
