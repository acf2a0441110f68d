"""The storage helper: one process of the user's that holds the connections to the remotes of one store.

It is started by a compile, by its engine (`remote/client`) or by the native program, serves any number of them, and
uploads what is queued. It ends when nobody has asked for IDLE seconds and the queue is empty or no remote takes it, or
when its socket is gone. Each answer of a remote has a bound: a fetch of which nothing comes for the time of its address
is given up, whatever the library that is at it does.

The native program cannot know where the socket is (`remote/sockets`), which follows from all settings. It asks at a
*door*: a socket whose name follows from what it does know (`native/helper.c`), and which it makes itself, with the
helper. That one makes the socket, too, and answers at both. Where there is a helper already, the door becomes a link to
its socket, and the second helper ends when it has answered those who wait at the door.
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
from typing import Any

from hipcache import features
from hipcache.config import Config
from hipcache.errors import ConfigError
from hipcache.remote import sockets
from hipcache.remote.helper import commands
from hipcache.remote.helper.commands import Question
from hipcache.remote.helper.connection import Begun
from hipcache.remote.helper.fetches import TICK, Fetches
from hipcache.remote.helper.remotes import Remote, open_remotes
from hipcache.remote.helper.upload import Uploads
from hipcache.remote.sockets import place_of
from hipcache.store.local import LocalStore
from hipcache.values import dataclass, field

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
                for one in select.select(list(listeners.values()), (), (), 1.0)[0]:
                    connection, _ = one.accept()
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
