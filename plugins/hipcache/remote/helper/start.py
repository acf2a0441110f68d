"""Starts the storage helper in the order that takes the least time: a connection first, then what goes over it.

On a busy machine that takes seconds. Who asks meanwhile gets signs of life: the native program takes the door away from
a helper that says nothing (`native/launcher/helper.c`).
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from hipcache import config as settings
from hipcache.base import shared
from hipcache.base.errors import ConfigError, StoreError
from hipcache.base.keys import digest_bytes, digest_file, make_key
from hipcache.base.paths import runtime_directory
from hipcache.base.times import keeps_change_time
from hipcache.base.values import dataclass, field, replace
from hipcache.config import Config
from hipcache.remote import backend
from hipcache.remote.backend import Begun
from hipcache.store.local import LocalStore

if TYPE_CHECKING:
    from hipcache.report.history import History
    from hipcache.store.seal import Seal

DOOR = "--door"
_TICK = 0.1


def serve(words: list[str], environ: Mapping[str, str]) -> int:
    """`words`: descriptors of the lock and the socket, and where the socket is; DOOR before that: it is a door."""
    gc.disable()  # nothing of what is loaded goes again
    try:
        config = settings.load(environ)
        with socket.socket(fileno=int(words[-2])) as listener:
            greeter = Greeter(listener)
            greeter.thread.start()
            _serve(words, environ, config, backend.begin(config.remote), greeter)
    except (ConfigError, StoreError, OSError):
        return 1
    os.close(int(words[-3]))
    # Threads that hang in a library must not hold the process.
    os._exit(0)


class Greeter:
    """Says to who connects that the helper is at it. `waiting`: those who wait for an answer."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.waiting: list[socket.socket] = []
        self.thread = threading.Thread(target=self._run, daemon=True)
        self._ended = threading.Event()

    def end(self) -> list[socket.socket]:
        self._ended.set()
        self.thread.join()
        return self.waiting

    def _run(self) -> None:
        while not self._ended.wait(_TICK):
            while select.select([self.listener], (), (), 0)[0]:
                self.waiting.append(self.listener.accept()[0])
            for client in self.waiting:
                with suppress(OSError):
                    client.sendall(b"\n")


def _serve(words: list[str], environ: Mapping[str, str], config: Config, begun: Begun, greeter: Greeter) -> None:
    """Raises StoreError, OSError."""
    from hipcache.remote.helper.process import Helper
    from hipcache.store.local import open_store

    gc.freeze()
    gc.enable()
    lock, place = int(words[-3]), words[-1]
    store = open_store(config)
    helper = Helper(config, store, begun, Compilers(store, environ).begin)
    helper.fetches.note = Whence(store).note
    helper.waiting = greeter.end()
    if words[0] == DOOR:
        helper.serve_door(greeter.listener, place, lock, environ)
    else:
        helper.run({place: greeter.listener}, place)


# Reads compilers while a remote is waited for.
#
# The first compile with a new store has to know the contents of the compiler and its libraries, some 200 MB, before it
# takes a record that came from elsewhere (`native/direct/contents.c`): a tenth of a second, in which all others wait.
# Which files these are is known from the manifest, a round trip before the record is here. What is noted is what the
# native program would note (`native/direct/reading.c`), the digest of a file's content by its status: so a manifest
# that names other files costs time, and nothing else.
#
# Who reads holds the turn that the native program would take, so that it waits instead of reading the same. Several
# files are read at once, by as many threads as there are processors: they have little else to do while a remote is
# waited for.

_MOST_FILES, _MOST_BYTES = 64, 1 << 30
# Seconds: a file that changed later may change again, and have the same times.
_RACY = 2.0
_TURN = "reading.lock"
# As `native/direct/action.c` has it.
_CLAIMED = b'{"claim":true}'


@dataclass
class Compilers:
    """`environ`: of the helper, which says where the turn is taken."""

    store: LocalStore
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
    """As `append_status` of `native/direct/state.c` has it: device, inode, mode, bytes, nanoseconds of both times."""
    with suppress(OSError, ValueError):
        found = os.stat(path)
        return (found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return ()


# Notes for `hipcache explain` which remote a whole compile came from: no engine runs that would.
#
# Nobody waits for that: it is done a moment after the answer, and what it takes is loaded then. What an older compile
# of the same object was made from stays in its record, so that the next miss is still explained by that.

# Seconds; a build asks for many compiles at once, and its hits are not to share the processor with this.
_LATER = 2.0


@dataclass(frozen=True)
class _Come:
    when: float
    object: str
    command: tuple[str, ...]
    directory: str
    remote: str


@dataclass
class Whence:
    store: LocalStore
    clock: Callable[[], float] = time.time
    _waiting: list[_Come] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, argv: Sequence[str], cwd: str, remote: str) -> None:
        """`argv`: the command; of one that names no output there is no object that could be asked for."""
        path = output_of(argv, cwd)
        if not path:
            return
        with self._lock:
            self._waiting.append(_Come(self.clock(), path, tuple(argv), cwd, remote))
            if len(self._waiting) == 1:
                threading.Thread(target=self._write, daemon=True).start()

    def _write(self) -> None:
        from hipcache.report.history import History

        time.sleep(_LATER)
        with self._lock:
            come, self._waiting = self._waiting, []
        history = History(self.store.notes())
        for compile in come:
            _save(history, compile, self.store.seal)


def _save(history: History, come: _Come, seal: Seal) -> None:
    from hipcache.report.history import Record
    from hipcache.report.outcome import HIT

    notes = (f"results came from remote '{come.remote}'",)
    seals = seal.namespace, seal.key
    old = history.compared(come.object, *seals)
    units = tuple(replace(unit, hit=True, why=()) for unit in old.units) if old else ()
    variables = old.variables if old else {}
    history.save(
        Record(come.object, come.when, come.command, come.directory, HIT, "", "", notes, variables, units, *seals)
    )


def output_of(argv: Sequence[str], cwd: str) -> str:
    """As the command names it, from the root; empty where it does not."""
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        if word == "-o" and following:
            return os.path.join(cwd, following)
    return ""
