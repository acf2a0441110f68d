"""A compile's side of the remote cache: asks the storage helper (`remote/helper`), and starts it where there is none.

The helper listens at a socket in the user's runtime directory, whose name has a digest of all that the helper is made
from: settings, and what credentials the environment names. Who finds no helper takes the lock beside the socket, makes
the socket, and starts a helper that gets both: from that moment on others can connect, and never wait for its start.

Protocol: lines of JSON. {"op": "fetch", "keys": [...], "build": name} is answered with {"fetched": bool, "hits": number
of keys, "questions" to remotes and "answers": numbers, "found": keys of all records that came, "from": name, "told":
[text, hint] or null}, and before that with as many empty lines as it likes, which say that it is at it. {"op":
"prefetch", "file": path, "directory": of the build, "environ": variables, "build": name} is answered with {"text": what
it came to, "told": as above}, or {"wrong": [text, hint]}, after empty lines. {"op": "upload"} has no answer. {"op":
"sync"} is answered with {"left": items, "told": ...} now and then, for the last time when `left` is 0 or something is
told.

Whatever goes wrong costs the timeout and SILENCE seconds once; then `v2/remote/down` is there, with the name of the
build, and no compile asks for REMOTE_DOWN seconds, and none of that build at all. A helper that only stood still (a
machine that slept or swapped, Ctrl-Z) is left alone for MOMENT seconds: then the file has STILL before that name, and
is as old as if only these were left, so that the native program needs to know one bound. The next good answer removes
it; another silence after it counts as any fault.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import hipcache
from hipcache.base.errors import ConfigError, HipcacheError
from hipcache.base.shared import REMOTE_DOWN
from hipcache.base.values import dataclass, field
from hipcache.config import Config
from hipcache.processes.runner import start_detached
from hipcache.remote import address, queue, sockets
from hipcache.remote.address import TIMEOUT, parse, shown
from hipcache.remote.sockets import destination_of, place_of
from hipcache.report import conditions
from hipcache.store.confined import Confined

# Seconds: until the helper has said something, beyond the timeout of the addresses; and for one question.
SILENCE, LONGEST = 0.2, 60.0
MOMENT = 15.0
STILL = b"still "
_LONGEST_BUILD = 86400.0
_DOWN_MARK = f"{queue.DIRECTORY}/down"
_TRIES = 4  # to connect, while others start the helper
_START = """\
import sys
del sys.path[0], sys.argv[0]
sys.path += [place for place in sys.argv.pop(0).split(":") if place not in sys.path]
from hipcache.__main__ import main
sys.exit(main())
"""

Tell = Callable[[str, str], object]


@dataclass(frozen=True)
class Fetched:
    """What a question came to. `came`: the keys of records that are in the local store since then; `fault`: was
    there a remote that did not answer?"""

    came: tuple[str, ...] = ()
    fault: bool = False
    seconds: float = 0.0

    @property
    def new(self) -> bool:
        return bool(self.came)


class _TooLong(OSError):
    """The helper is at it, and was given no more time."""


@dataclass
class Client:
    """`tell` takes a fault and what to do about it; `build` names the build that this process is part of. `asked` of
    keys: by this process, so that it asks once."""

    config: Config
    environ: Mapping[str, str]
    tell: Tell
    build: Callable[[], str] = str
    _asked: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _given_up: bool = False
    _is_marked: bool = False
    _served: str = ""

    @property
    def store(self) -> Confined:
        return Confined(self.config.dir, self.config.umask)

    @property
    def served_by(self) -> str:
        """The remote that the last results came from; empty where none did."""
        return self._served

    def fetch(self, keys: Sequence[str]) -> Fetched | None:
        """None where nothing was asked. Raises nothing."""
        with self._lock:
            wanted = [key for key in dict.fromkeys(keys) if key not in self._asked]
            self._asked.update(wanted)
        if not wanted or self._given_up or not self.is_up():
            return None
        wrong = self.why_not()
        if wrong:
            self._given_up = True
            self.tell(*wrong)
            return None
        began = time.monotonic()
        try:
            for answer in self._ask({"op": "fetch", "keys": wanted, "build": self.build()}):
                if answer.get("told"):
                    self.tell(*map(str, answer["told"][:2]))
                self._answered()
                if answer.get("fetched"):
                    self._served = str(answer.get("from", ""))
                seconds = time.monotonic() - began
                came = tuple(map(str, answer["found"])) if answer.get("fetched") else ()
                if not answer["questions"]:
                    return None
                return Fetched(came, answer["questions"] > answer["answers"], seconds)
        except (OSError, ValueError, TypeError, KeyError) as error:
            self.give_up(f"its storage helper does not answer: {error}", still=_is_silence(error))
        return Fetched(fault=True, seconds=time.monotonic() - began)

    def prefetch(self, file: str, seconds: float, directory: str = "") -> str:
        """Have all fetched that the build with these commands needs, within that time: what it came to, in words.
        `directory`: where it is at home, if not where the file is. Raises HipcacheError where the file is at fault,
        OSError, ValueError where the helper is; the remote's fault is told."""
        if self._given_up or not self.is_up():
            return ""
        place = {"file": file, "directory": directory or os.path.dirname(file)}
        asked = {"op": "prefetch", **place, "environ": dict(self.environ), "build": self.build()}
        try:
            for answer in self._ask(asked, seconds):
                if answer.get("wrong"):
                    raise HipcacheError(*map(str, answer["wrong"][:2]))
                if answer.get("told"):
                    self.tell(*map(str, answer["told"][:2]))
                return str(answer["text"])
        except _TooLong:
            raise
        except (OSError, ValueError, TypeError, KeyError) as error:
            self.give_up(f"its storage helper does not answer: {error}", still=_is_silence(error))
            raise OSError(str(error)) from error
        return ""

    def queue(self, keys: Sequence[str], following: Sequence[str]) -> None:
        """Have the records uploaded, some time. Raises nothing."""
        if self.why_not():
            return
        added = queue.add(self.store, keys, following, destination_of(self.config), anew=self.config.recache)
        if added and not self._given_up and self.is_up():
            with suppress(OSError), self.connected() as connection:
                connection.sendall(queue.TOLD)

    def note(self, told: Mapping[str, Any]) -> None:
        """Have the helper know it; there is no answer. Raises nothing."""
        with suppress(OSError), self.connected() as connection:
            connection.sendall(json.dumps(told).encode() + b"\n")

    def sync(self, timeout: float) -> Iterator[dict[str, Any]]:
        """What the helper says of the queue, until it is empty. Raises OSError, ValueError."""
        return self._ask({"op": "sync"}, timeout)

    def why_not(self) -> tuple[str, str] | None:
        """Why no remote can be used, and what to do about it: wrong settings, or packages that are missing."""
        try:
            self._patience  # noqa: B018
        except ConfigError as error:
            return error.message, error.hint
        missing = address.missing_packages(self.config.remote)
        if missing:
            return f"remote '{self._names()}' needs {', '.join(missing)}", address.install(missing)
        return None

    # How

    @cached_property
    def _patience(self) -> float:
        return SILENCE + max((parse(text).timeout for text in self.config.remote), default=TIMEOUT)

    def _names(self) -> str:
        """Without options, in which nothing secret is, but what nobody wants to read."""
        return " ".join(map(shown, self.config.remote))

    def is_up(self) -> bool:
        """May it be asked? A build that has met the fault asks no more, however long it takes."""
        with suppress(OSError):
            age = self._age()
            self._is_marked = True
            if age < REMOTE_DOWN or (age < _LONGEST_BUILD and self._mark() == self.store.read(_DOWN_MARK, 1 << 10)):
                return False
        return True

    def _mark(self) -> bytes:
        return self.build().encode() or b"no build"

    def _age(self) -> float:
        """Of the mark, in seconds. Raises OSError."""
        return abs(time.time() - self.store.status(_DOWN_MARK).st_mtime)

    def give_up(self, why: str, *, still: bool = False) -> None:
        """`still`: nothing is wrong with the helper, but that it says nothing."""
        self._given_up = True
        with suppress(OSError):
            text, old = self._mark(), 0.0
            if still and not self._was_still():
                text, old = STILL + text, REMOTE_DOWN - MOMENT
            mark = self.store.keep(_DOWN_MARK, 1 << 10)
            with os.fdopen(mark, "r+b") as file:
                file.truncate()
                file.write(text)
            self.store.touch(_DOWN_MARK, time.time_ns() - round(old * 1e9))
            self._given_up = not old
        self.tell(f"remote '{self._names()}': {why}", "the build continues without it; try 'hipcache doctor'")

    def _was_still(self) -> bool:
        """Before this silence, in this build, and has it not answered since?"""
        with suppress(OSError):
            return self._age() >= REMOTE_DOWN and self.store.read(_DOWN_MARK, 1 << 10) == STILL + self._mark()
        return False

    def _answered(self) -> None:
        """It no longer stands still."""
        with suppress(OSError):
            if self._is_marked and self.store.read(_DOWN_MARK, 1 << 10).startswith(STILL):
                self.store.unlink(_DOWN_MARK)
        self._is_marked = False

    def _ask(self, request: dict[str, Any], longest: float = LONGEST) -> Iterator[dict[str, Any]]:
        """The answers. Raises OSError, ValueError."""
        end = time.monotonic() + longest
        with self.connected() as connection, connection.makefile("rb") as answers:
            connection.settimeout(self._patience)
            connection.sendall(json.dumps(request).encode() + b"\n")
            while True:
                line = answers.readline(1 << 20)
                if not line:
                    raise OSError("it has ended")
                if line.strip():
                    answer = json.loads(line)
                    if not isinstance(answer, dict):
                        raise ValueError("no answer")
                    yield answer
                if time.monotonic() > end:
                    raise _TooLong("it takes too long")

    def connected(self, patience: float = 0.0) -> socket.socket:
        """`patience`: seconds for each answer, where not those of a remote. Raises OSError."""
        place = self.place()
        for _ in range(_TRIES):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.settimeout(patience or self._patience)
            try:
                sockets.near(place, connection.connect)
                return connection
            except (FileNotFoundError, ConnectionRefusedError):
                connection.close()
                self._start(place)
            except OSError:
                connection.close()
                raise
        raise OSError("it does not start")

    def place(self) -> str:
        """Of the socket. Raises OSError."""
        return place_of(self.config, self.environ)

    def _start(self, place: str) -> None:
        """Start a helper, unless another process is at it. Raises OSError."""
        with sockets.Lock(place) as lock:
            if not lock.take():
                return sockets.wait_for(place)
            with sockets.bound(place) as listener:
                # The script of the engine may have added places of packages.
                root = str(Path(hipcache.__file__).parent.parent)
                places = os.pathsep.join([root, *filter(os.path.isabs, sys.path)])
                fds = (lock.fileno(), listener.fileno())
                argv = [sys.executable, "-E", "-c", _START, places]
                argv += ["hipcache", hipcache.STORAGE_HELPER, *map(str, fds), place]
                # The helper is at home in no directory.
                named = {"HIPCACHE_CONFIG": str(self.config.config_file)} if self.config.config_file else {}
                start_detached(argv, env={**self.environ, **named}, keep=fds)


def open_client(config: Config, environ: Mapping[str, str]) -> Client:
    """That of a compile or a build: faults are told once in a build."""

    def tell(fault: str, hint: str) -> None:
        about = " ".join(config.remote)
        conditions.tell([conditions.Condition("remote", fault, hint, about)], environ)

    return Client(config, environ, tell, conditions.build_of_this_process)


def _is_silence(error: Exception) -> bool:
    """The queue of its socket is full where many ask at once."""
    return isinstance(error, (TimeoutError, BlockingIOError))
