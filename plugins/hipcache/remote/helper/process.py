"""The storage helper: one process of the user's that holds the connections to the remotes of one store.

It is started by a compile, by its engine (`remote/client`) or by the native program, serves any number of them, and
uploads what is queued. It ends when nobody has asked for IDLE seconds and the queue is empty or no remote takes it, or
when its socket is gone. Each answer of a remote has a bound: a fetch of which nothing comes for the time of its address
is given up, whatever the library that is at it does.

The native program cannot know where the socket is (`remote/sockets`), which follows from all settings. It asks at a
*door*: a socket whose name follows from what it does know (`native/launcher/helper.c`), and which it makes itself, with
the helper. That one makes the socket, too, and answers at both. Where there is a helper already, the door becomes a
link to its socket, and the second helper ends when it has answered those who wait at the door.
"""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from hipcache.base import features
from hipcache.base.errors import ConfigError
from hipcache.base.values import dataclass, field
from hipcache.config import Config
from hipcache.remote import queue, sockets
from hipcache.remote.backend import Begun
from hipcache.remote.helper import commands
from hipcache.remote.helper.commands import Question
from hipcache.remote.helper.fetches import TICK, Fetches
from hipcache.remote.helper.remotes import Remote, open_remotes
from hipcache.remote.sockets import destination_of, place_of
from hipcache.report import statistics
from hipcache.store.local import LocalStore

IDLE, SECOND_IDLE = 300.0, 3.0
# Bytes: Linux lets an environment have 6 MiB, and JSON writes six for each that is no ASCII.
_MOST_REQUEST = 40 << 20


@dataclass
class Helper:
    config: Config
    store: LocalStore
    begun: Begun = field(default_factory=Begun)
    compilers: Callable[[Sequence[str]], object] = bool
    remotes: list[Remote] = field(default_factory=list)
    used: float = field(default_factory=time.monotonic)
    idle: float = IDLE
    fetches: Fetches = field(init=False)
    uploads: Uploads = field(init=False)
    waiting: list[socket.socket] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _executions: Any = None

    def __post_init__(self) -> None:
        self.fetches = Fetches(self.config, self.store, self.remotes)
        self.uploads = Uploads(self.config, self.store, self.remotes)

    def serve_door(self, door: socket.socket, path: str, lock: int, environ: Mapping[str, str]) -> None:
        """`lock` has what the native program notes of its start: now it is up. Raises OSError."""
        place = place_of(self.config, environ)
        mine = sockets.Lock(place)
        with door:
            if mine.take():
                with sockets.bound(place) as listener:
                    os.ftruncate(lock, 0)
                    self.run({place: listener, path: door}, place)
                with suppress(OSError):
                    os.unlink(path)
                return
            _link(path, place)
            os.ftruncate(lock, 0)
            self.uploads.ended, self.idle = True, SECOND_IDLE
            self.run({path: door}, path)

    def run(self, listeners: Mapping[str, socket.socket], place: str) -> None:
        """Until nobody needs it any more, or there is something else at `place`."""
        mine = sockets.identity(place)
        ready = threading.Event()
        threading.Thread(target=self._open, args=(ready,), daemon=True).start()
        if not self.uploads.ended:
            threading.Thread(target=self.uploads.run, args=(ready, self.note_use), daemon=True).start()
        for connection in self.waiting:
            threading.Thread(target=self._answer, args=(connection, ready), daemon=True).start()
        with suppress(OSError):
            while sockets.identity(place) == mine and not self.is_idle():
                for listener in select.select(list(listeners.values()), (), (), 1.0)[0]:
                    connection, _ = listener.accept()
                    threading.Thread(target=self._answer, args=(connection, ready), daemon=True).start()
            # What another one has put in its place is not this one's to remove.
            if not self.uploads.ended and sockets.identity(place) == mine:
                os.unlink(place)
        self.fetches.end()
        self.uploads.end()

    def note_use(self) -> None:
        self.used = time.monotonic()

    def is_idle(self) -> bool:
        """Nobody has asked for a while, and nothing can be uploaded: what stays queued waits for the next compile."""
        if time.monotonic() - self.used <= self.idle:
            return False
        return self.uploads.ended or self.uploads.are_stuck_or_done()

    def _open(self, ready: threading.Event) -> None:
        """The settings may be wrong, or a library may be: that is told to who asks."""
        try:
            self.begun.wait()
            self.remotes += open_remotes(self.config, self.store, self.begun.backends)
            for remote in self.remotes:
                remote.compilers = self.compilers
        except ConfigError as error:
            self.fetches.fault = [error.message, error.hint]
        except Exception as error:
            self.fetches.fault = [f"remote: {type(error).__name__}: {error}", "see 'hipcache doctor'"]
        for remote in self.remotes:
            # The libraries of the protocols take longer to load than an answer may take.
            with suppress(Exception):
                remote.open()
        ready.set()

    def _answer(self, connection: socket.socket, ready: threading.Event) -> None:
        with connection, suppress(OSError, ValueError), connection.makefile("rb") as requests:
            connection.settimeout(5.0)
            line = requests.readline(_MOST_REQUEST)
            asked = commands.read_question(line, requests) if line.startswith((commands.ASK, commands.AHEAD)) else None
            request: dict[str, Any] = json.loads(line) if asked is None else {"op": "ask"}
            self.note_use()

            def say(answer: dict[str, Any] | None = None) -> None:
                connection.sendall((json.dumps(answer) if answer else "").encode() + b"\n")

            while not ready.wait(TICK):
                say()
            if asked and asked.ahead:
                connection.sendall(self._ahead(asked, say))
            elif asked:
                connection.sendall(commands.YES if self.fetches.whole(asked, say) else commands.NO)
            elif request["op"] == "fetch":
                build = self.fetches.account(str(request.get("build", "")))
                keys = [str(key) for key in request["keys"]]
                say(self.fetches.fetch(keys, say, build, ahead=False))
            elif request["op"] == "prefetch":
                build = self.fetches.account(str(request.get("build", "")))
                environ = {str(name): str(value) for name, value in request["environ"].items()}
                say(self.fetches.ahead(str(request["file"]), str(request["directory"]), environ, say, build))
            elif request["op"] == "upload":
                self.uploads.ask()
            elif request["op"] == "execute":
                say(self._execute(request, say))
            elif request["op"] == "blame":
                self._executors().blame(request)
            elif request["op"] == "sync":
                self.uploads.sync(say)
            self.note_use()

    def _execute(self, request: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        def alive(answer: dict[str, Any]) -> None:
            self.note_use()
            say(answer)

        ended: dict[str, Any] = self._executors().run(request, alive)
        return ended

    def _executors(self) -> Any:
        with self._lock:
            if self._executions is None:
                self._executions = next(features.modules("EXECUTIONS")).ExecutionService(self.config)
            return self._executions

    def _ahead(self, asked: Question, alive: Callable[[], object]) -> bytes:
        if not self.config.prefetch:
            return commands.NO
        file = os.path.join(asked.cwd, asked.argv[0])
        answer = self.fetches.ahead(file, os.path.dirname(file), asked.environ, alive, self.fetches.account(""))
        if answer.get("wrong") or answer["told"]:
            return commands.NO
        return commands.YES + f"{answer['text']}\n".encode("utf-8", "surrogateescape")


def _link(path: str, place: str) -> None:
    """Have the door lead to the socket of the helper that there is. Raises OSError."""
    new = f"{path}.{os.getpid()}"
    os.symlink(os.path.basename(place), new)
    os.replace(new, path)


_LOOK = 1.0  # seconds after which who has told nothing may have queued something
_BATCH = 32  # items that are uploaded together
_AGAIN = 10.0  # seconds after which an upload that failed is tried again
_TRIES = 3  # for an item that fails by itself, each after others have been uploaded


@dataclass
class _Line:
    """What one remote has got of the queue. `got`: names of items; `unreadable`: of those that this user cannot read;
    `failed`: of those that failed by themselves, the last one at the end, and how often they did after something else
    had gone well; `again`: of those that are to be tried again now; `is_well`: has nothing failed since the last
    upload? `told`: is a failure since then counted? `alone`: one item at a time, to find the one that fails; `said`:
    why the last one failed; `fault`: why nothing can be sent now; `asked`: there may be something new; `hurry`: try
    again at once."""

    remote: Remote
    got: set[str] = field(default_factory=set)
    unreadable: set[str] = field(default_factory=set)
    failed: dict[str, int] = field(default_factory=dict)
    again: list[str] = field(default_factory=list)
    is_well: bool = True
    told: bool = False
    alone: bool = False
    said: str = ""
    fault: str = ""
    asked: threading.Event = field(default_factory=threading.Event)
    hurry: threading.Event = field(default_factory=threading.Event)
    uploading: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class Uploads:
    """Each remote has a thread of its own, so that none waits for another one that is slow. An item leaves the queue
    when all have it. `ended`: nothing more is to be begun."""

    config: Config
    store: LocalStore
    remotes: list[Remote]
    ended: bool = False
    _lines: list[_Line] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def _to(self) -> str:
        return destination_of(self.config)

    def run(self, ready: threading.Event, used: Callable[[], object]) -> None:
        """`ready`: the remotes are open; `used` is told of each upload."""
        ready.wait()
        with suppress(OSError):
            queue.drop_old(self.store.confined, self._to)
        lines = [_Line(remote) for remote in self.remotes]
        self._lines += [line for line in lines if line.remote.address.writes]
        for line in lines:
            threading.Thread(target=self._serve, args=(line, used), daemon=True).start()
        self.ask()

    def ask(self) -> None:
        """There may be something new in the queue."""
        self._drop_unwanted()
        for line in self._lines:
            line.asked.set()

    def end(self) -> None:
        """When the uploads that are under way have ended."""
        self.ended = True
        for line in self._lines:
            with line.uploading:
                continue

    def are_stuck_or_done(self) -> bool:
        return not self.remotes or bool(self.fault()) or not self._waiting()

    def fault(self) -> str:
        """Why nothing more can be sent now; empty while something can."""
        there = self._names()
        left = [line for line in self._lines if not there <= line.got | line.unreadable]
        return left[0].fault if left and all(line.fault for line in left) else ""

    def _serve(self, line: _Line, used: Callable[[], object]) -> None:
        while True:
            line.asked.wait(_LOOK)
            line.asked.clear()
            self._drop_unwanted()
            if line.remote.breaker.is_to_be_probed():
                line.remote.probe()
            while line.remote.address.writes and not self.ended and self._some(line):
                used()
            if line.fault:
                line.hurry.wait(_AGAIN)
                line.again = [*line.failed]
            line.hurry.clear()

    def _some(self, line: _Line) -> bool:
        """Some items of the queue. False where there is nothing to do, or nothing can be done now."""
        with line.uploading:
            try:
                items, others = self._next(line)
            except OSError:
                return False
            fault = self._upload(line, items) if items else ""
            with self._lock:
                if fault:
                    self._note_failed(line, items, fault, others=others)
                elif items:
                    line.got.update(item.name for item in items)
                    for item in items:
                        line.failed.pop(item.name, None)
                    line.is_well, line.alone = True, False
                if not fault:
                    line.fault = line.said if line.failed and not items else ""
                self._remove_what_all_have()
            return bool(items) and not line.fault

    def _next(self, line: _Line) -> tuple[list[queue.Item], bool]:
        """The items that are to be uploaded; are there others that have not failed? Raises OSError."""
        most = 1 if line.alone else _BATCH
        items = self._read(line, most + 1, line.got | line.unreadable | line.failed.keys())
        if items:
            return items[:most], len(items) > most
        there = self._names()
        line.failed = {name: tries for name, tries in line.failed.items() if name in there}
        while line.again and not items:
            items = self._read(line, 1, there - {line.again.pop()})
        return items, False

    def _read(self, line: _Line, most: int, but: set[str]) -> list[queue.Item]:
        items, unreadable = queue.read(self.store.confined, most, but, self._to)
        line.unreadable |= unreadable
        return items

    def _note_failed(self, line: _Line, items: list[queue.Item], fault: str, *, others: bool) -> None:
        """The remote may be at fault, or one item: it may be too large, or the remote's own rules forbid it. Then the
        others are uploaded, and it is left out in the end."""
        line.fault, line.said = "", fault
        if len(items) > 1:
            line.alone = True
            return
        (name,) = [item.name for item in items]
        tries = line.failed.pop(name, 0) + line.is_well
        if tries < _TRIES:
            line.failed[name] = tries
        else:
            line.got.add(name)
        if not (line.is_well and others):
            line.fault = fault
        line.is_well = False

    def _upload(self, line: _Line, items: list[queue.Item]) -> str:
        """The fault, or nothing. An outage is counted once, however often it is tried again."""
        try:
            tally = line.remote.open().upload(items, lambda size: None)
        except Exception as error:
            if not line.told:
                statistics.count(self.config.dir, "remote", {"errors": 1}, self.config.umask)
            line.told = True
            return line.remote.failed_upload(error)
        line.told = False
        counts = {"uploads": tally.uploads, "sent": tally.sent, "errors": tally.errors}
        statistics.count(self.config.dir, "remote", counts, self.config.umask)
        return ""

    def _remove_what_all_have(self) -> None:
        """A queue that fills up waits for none that is at fault."""
        there = self._names()
        well = [line for line in self._lines if not line.fault]
        waited_for = well if well and len(there) > queue.MOST // 2 else self._lines
        for name in set.intersection(there, *(line.got for line in waited_for)):
            queue.remove(self.store.confined, name)
        for line in self._lines:
            line.got &= there
            line.unreadable &= there

    def _names(self) -> set[str]:
        with suppress(OSError):
            return set(queue.names(self.store.confined, self._to))
        return set()

    def _waiting(self) -> set[str]:
        """Without those that none can read."""
        left_out = set.intersection(*(line.unreadable for line in self._lines)) if self._lines else set()
        return self._names() - left_out

    def _drop_unwanted(self) -> None:
        if self.remotes and not any(remote.address.writes for remote in self.remotes):
            for name in self._names():
                queue.remove(self.store.confined, name)

    def sync(self, say: Callable[[dict[str, Any]], object]) -> None:
        """Say what is left, until nothing is, or no more can be sent."""
        for line in self._lines:
            line.fault = ""
            line.unreadable.clear()
            line.again = [*line.failed]
            line.hurry.set()
        self.ask()
        while True:
            left, fault = len(self._waiting()), self.fault()
            told = [fault, "see 'hipcache doctor'"] if fault and left else None
            say({"left": left, "told": told})
            if not left or told:
                return
            time.sleep(TICK)
