"""The storage helper: one process of the user's that holds the connections to the remotes of one store.

It is started by a compile (`client`), serves any number of them, and uploads what is queued. It ends when nobody has
asked for IDLE seconds and the queue is empty or no remote takes it, or when its socket is gone. Each answer of a remote
has a bound: a fetch of which nothing comes for the time of its address is given up, whatever the library that is at it
does.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from hipcache import config as settings
from hipcache.config import Config
from hipcache.errors import ConfigError, StoreError
from hipcache.helper.executing import Executions
from hipcache.helper.remotes import Remote, open_remotes
from hipcache.helper.transfer import Tally
from hipcache.remote import queue
from hipcache.remote.breaker import MEMORY, Breaker
from hipcache.report import statistics
from hipcache.store.local import LocalStore
from hipcache.store.opening import open_store
from hipcache.values import dataclass, field

IDLE = 300.0
SILENCE = 0.9  # of an address's timeout; less than the client's
_TICK = 0.1
_BATCH = 32  # items that are uploaded together
_AGAIN = 10.0  # seconds after which an upload that failed is tried again
_MOST_REQUEST = 1 << 20
_MOST_BUILDS, _LONGEST_BUILD = 100, 86400.0


def serve(words: list[str], environ: Mapping[str, str]) -> int:
    """`words`: descriptors of the lock and the socket, and where the socket is."""
    lock, listening, place = int(words[0]), int(words[1]), words[2]
    try:
        config = settings.load(environ)
        helper = Helper(config, open_store(config))
    except (ConfigError, StoreError):
        return 1
    with socket.socket(fileno=listening) as listener:
        helper.run(listener, place)
    os.close(lock)
    # Threads that hang in a library must not hold the process.
    os._exit(0)


@dataclass
class Helper:
    config: Config
    store: LocalStore
    remotes: list[Remote] = field(init=False)
    used: float = field(default_factory=time.monotonic)
    _asked: threading.Event = field(default_factory=threading.Event)
    _hurry: threading.Event = field(default_factory=threading.Event)
    _uploading: threading.Lock = field(default_factory=threading.Lock)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _builds: dict[str, Breaker] = field(default_factory=dict)
    _ended: bool = False
    _upload_fault: str = ""
    _fault: list[str] | None = None
    _executions: Executions | None = None

    def run(self, listener: socket.socket, place: str) -> None:
        """Until nobody needs it any more."""
        inode = os.stat(place).st_ino
        listener.settimeout(1.0)
        ready = threading.Event()
        threading.Thread(target=self._open, args=(ready,), daemon=True).start()
        threading.Thread(target=self._upload_all, args=(ready,), daemon=True).start()
        with suppress(OSError):
            while os.stat(place).st_ino == inode and not self.is_idle():
                with suppress(TimeoutError):
                    connection, _ = listener.accept()
                    threading.Thread(target=self._answer, args=(connection, ready), daemon=True).start()
            os.unlink(place)
        self._ended = True
        with self._uploading:
            return

    def is_idle(self) -> bool:
        """Nobody has asked for a while, and nothing can be uploaded: what stays queued waits for the next compile."""
        if time.monotonic() - self.used <= IDLE:
            return False
        return bool(self._upload_fault) or not queue.names(self.store.confined)

    def _open(self, ready: threading.Event) -> None:
        """The settings may be wrong, or a library may be: that is told to who asks."""
        self.remotes = []
        try:
            self.remotes = open_remotes(self.config, self.store)
        except ConfigError as error:
            self._fault = [error.message, error.hint]
        except Exception as error:
            self._fault = [f"remote: {type(error).__name__}: {error}", "see 'hipcache doctor'"]
        ready.set()

    def _answer(self, connection: socket.socket, ready: threading.Event) -> None:
        with connection, suppress(OSError, ValueError), connection.makefile("rb") as requests:
            connection.settimeout(5.0)
            request = json.loads(requests.readline(_MOST_REQUEST))
            self.used = time.monotonic()

            def say(answer: dict[str, Any] | None = None) -> None:
                connection.sendall((json.dumps(answer) if answer else "").encode() + b"\n")

            while not ready.wait(_TICK):
                say()
            if request["op"] == "fetch":
                build = self._account(str(request.get("build", "")))
                say(self._fetch([str(key) for key in request["keys"]], say, build, ahead=bool(request.get("ahead"))))
            elif request["op"] == "upload":
                self._asked.set()
            elif request["op"] == "execute":
                say(self._execute(request, say))
            elif request["op"] == "sync":
                self._sync(say)
            self.used = time.monotonic()

    def _execute(self, request: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        def alive(answer: dict[str, Any]) -> None:
            self.used = time.monotonic()
            say(answer)

        with self._lock:
            if self._executions is None:
                self._executions = Executions(self.config.executor)
        return self._executions.run(request, alive)

    # Fetching

    def _account(self, build: str) -> Breaker:
        """What bad remotes have cost that build, all of them together: one that takes hours would else lose a second by
        each of them again and again, as they come and go."""
        with self._lock:
            if build not in self._builds:
                if len(self._builds) >= _MOST_BUILDS:
                    del self._builds[next(iter(self._builds))]
                timeout = max((remote.address.timeout for remote in self.remotes), default=1.0)
                self._builds[build] = Breaker(timeout, memory=_LONGEST_BUILD if build else MEMORY)
            return self._builds[build]

    def _fetch(self, keys: list[str], alive: Callable[[], None], build: Breaker, *, ahead: bool) -> dict[str, Any]:
        """Ask one remote after the other, for what the first ones do not have. `ahead`: for a whole build, by who has a
        bound of his own."""
        told = self._fault
        served, asked = "", len(keys)
        for remote in self.remotes:
            if not (remote.address.reads and keys) or build.why:
                continue
            began, received = time.monotonic(), remote.received
            found = self._fetch_from(remote, keys, alive, ahead=ahead)
            if not ahead or remote.breaker.why:
                build.spent(began, remote.received - received)
            if found:
                served = remote.address.name
                keys = [key for key in keys if key not in found]
            told = told or remote.fault()
        return {"fetched": bool(served), "hits": asked - len(keys), "from": served, "told": told}

    def _fetch_from(self, remote: Remote, keys: list[str], alive: Callable[[], None], *, ahead: bool) -> list[str]:
        if remote.breaker.why:
            return []
        began = last = time.monotonic()

        def progress(size: int) -> None:
            nonlocal last
            last = time.monotonic()

        future = _beside(lambda: remote.fetch(keys, progress))
        while not future.done():
            with suppress(TimeoutError):
                future.exception(_TICK)
            alive()
            if not future.done() and time.monotonic() - last > SILENCE * remote.address.timeout:
                remote.breaker.open("it does not answer in time")
                statistics.record_remote(self.config.dir, {"errors": 1, "misses": len(keys)}, self.config.umask)
                return []
        error = future.exception()
        if error is not None:
            remote.failed(error)
            statistics.record_remote(self.config.dir, {"errors": 1, "misses": len(keys)}, self.config.umask)
            return []
        tally = future.result()
        remote.received += tally.received
        if not ahead:
            remote.breaker.spent(began, tally.received)
        remote.judge(tally)
        counts = {
            "hits": tally.hits,
            "misses": tally.misses,
            "errors": tally.errors,
            "received": tally.received,
            "milliseconds": round((time.monotonic() - began) * 1000),
        }
        statistics.record_remote(self.config.dir, counts, self.config.umask)
        return tally.found

    # Uploading

    def _upload_all(self, ready: threading.Event) -> None:
        """All that is queued, for as long as this process lives."""
        ready.wait()
        self._asked.set()
        while True:
            self._asked.wait(5.0)
            self._asked.clear()
            for remote in self.remotes:
                if remote.breaker.is_to_be_probed():
                    remote.probe()
            if self.remotes and not any(remote.address.writes for remote in self.remotes):
                self._drop_all()
            while not self._ended and self.upload_some():
                self.used = time.monotonic()
            if self._upload_fault:
                self._hurry.wait(_AGAIN)
            self._hurry.clear()

    def upload_some(self) -> bool:
        """Some items of the queue. False where there is nothing to do, or nothing can be done now."""
        with self._uploading:
            try:
                items = queue.read(self.store.confined, _BATCH)
            except OSError:
                return False
            if not items or not self.remotes:
                self._upload_fault = ""
                return False
            for remote in self.remotes:
                if remote.address.writes and not self._upload_to(remote, items):
                    return False
            for item in items:
                queue.remove(self.store.confined, item.name)
            self._upload_fault = ""
            return True

    def _upload_to(self, remote: Remote, items: list[queue.Item]) -> bool:
        began = time.monotonic()
        try:
            tally = remote.upload(items)
        except Exception as error:
            self._upload_fault = remote.failed_upload(error)
            statistics.record_remote(self.config.dir, {"errors": 1}, self.config.umask)
            return False
        counts = {
            "uploads": tally.uploads,
            "sent": tally.sent,
            "milliseconds": round((time.monotonic() - began) * 1000),
        }
        statistics.record_remote(self.config.dir, {**counts, "milliseconds": 0}, self.config.umask)
        return True

    def _drop_all(self) -> None:
        with suppress(OSError):
            for name in queue.names(self.store.confined):
                queue.remove(self.store.confined, name)

    def _sync(self, say: Callable[[dict[str, Any] | None], None]) -> None:
        self._upload_fault = ""
        self._asked.set()
        self._hurry.set()
        while True:
            left = len(queue.names(self.store.confined))
            told = [self._upload_fault, "see 'hipcache doctor'"] if self._upload_fault and left else None
            say({"left": left, "told": told})
            if not left or told:
                return
            time.sleep(_TICK)


def _beside(work: Callable[[], Tally]) -> Future[Tally]:
    """In a thread of its own, which nobody waits for at the end."""
    future: Future[Tally] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
