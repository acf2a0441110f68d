"""Reads compilers while a remote is waited for.

The first compile with a new store has to know the contents of the compiler and its libraries, some 200 MB, before it
takes a record that came from elsewhere (`native/contents.c`): a tenth of a second, in which all others wait. Which
files these are is known from the manifest, a round trip before the record is here. What is noted is what the native
program would note (`native/reading.c`), the digest of a file's content by its status: so a manifest that names other
files costs time, and nothing else.

Who reads holds the turn that the native program would take, so that it waits instead of reading the same. Several files
are read at once, by as many threads as there are processors: they have little else to do while a remote is waited for.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from hipcache import shared
from hipcache.disk.times import keeps_change_time
from hipcache.errors import StoreError
from hipcache.inputs.keys import digest_bytes, digest_file, make_key
from hipcache.processes.slots import runtime_directory
from hipcache.store import Store
from hipcache.values import dataclass, field

_MOST_FILES, _MOST_BYTES = 64, 1 << 30
# Seconds: a file that changed later may change again, and have the same times.
_RACY = 2.0
_TURN = "reading.lock"
# As `native/action.c` has it.
_CLAIMED = b'{"claim":true}'


@dataclass
class Compilers:
    """`environ`: of the helper, which says where the turn is taken."""

    store: Store
    environ: Mapping[str, str]
    clock: Callable[[], float] = time.time
    _begun: set[tuple[str, ...]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, tools: Sequence[str]) -> None:
        """Read these files in a thread of its own, unless that has been done."""
        named = tuple(tools[:_MOST_FILES])
        with self._lock:
            if not named or named in self._begun:
                return
            self._begun.add(named)
        threading.Thread(target=self.read, args=(named,), daemon=True).start()

    def read(self, tools: Sequence[str]) -> None:
        """Note the content of those that are large and old. Raises nothing."""
        with suppress(OSError, ValueError, StoreError):
            found = {path: status for path in tools if (status := _status(path)) and self._is_worth_it(status)}
            if not found or sum(status[3] for status in found.values()) > _MOST_BYTES:
                return
            key = make_key("compilers read", [(path, repr(status)) for path, status in found.items()]).digest
            if self.store.get_action(key) is not None:
                return
            turn = self._take_turn()
            try:
                largest_first = sorted(found, key=lambda path: -found[path][3])
                with ThreadPoolExecutor(min(len(found), os.cpu_count() or 1), "compilers") as beside:
                    read = list(beside.map(self._read_one, largest_first, map(found.__getitem__, largest_first)))
                if all(read):
                    self.store.put_action(key, _CLAIMED)
            finally:
                if turn is not None:
                    os.close(turn)

    def _is_worth_it(self, status: tuple[int, ...]) -> bool:
        old = max(status[4:]) < (self.clock() - _RACY) * 1e9 and keeps_change_time(status[0], *status[4:])
        return status[3] >= shared.LARGE_CONTENT and old

    def _read_one(self, path: str, status: tuple[int, ...]) -> bool:
        with suppress(OSError, ValueError, StoreError):
            self._note(path, status, digest_file(path))
            return True
        return False

    def _note(self, path: str, status: tuple[int, ...], digest: str) -> None:
        if _status(path) == status:
            text = shared.terminated(shared.CONTENT_CLAIM_DOMAIN) + bytes.fromhex(digest)
            text += struct.pack("<6Q", *status) + os.fsencode(path) + b"\0"
            self.store.put_action(digest_bytes(text), _CLAIMED)

    def _take_turn(self) -> int | None:
        """A descriptor to close; None where another one has the turn, or there is no place for it."""
        directory = runtime_directory(self.environ)
        if not directory:
            return None
        fd = os.open(f"{directory}/{_TURN}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return None
        return fd


def _status(path: str) -> tuple[int, ...]:
    """As `append_status` of `native/state.c` has it: device, inode, mode, bytes, nanoseconds of both times."""
    with suppress(OSError, ValueError):
        found = os.stat(path)
        return (found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return ()
