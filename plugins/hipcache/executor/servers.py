"""The storage helper's side of the executors: what programs are there, which servers are well, and one action run.

A program is uploaded once, in the background: until it is there, who asks is told to come back. What the server lacks
is asked again after RENEW seconds, as it may have forgotten some of it, and after each fault.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hipcache.base.errors import ConfigError
from hipcache.base.values import dataclass, field
from hipcache.config import Config
from hipcache.executor import workers
from hipcache.executor.workers import ExecutorAddress, Watch
from hipcache.inputs.readset import known_by
from hipcache.remote import address, backend
from hipcache.remote.backend import DENIED, SETTINGS, STATUS, TOOLCHAIN, UNREACHABLE, RemoteError
from hipcache.remote.breaker import Breaker

if TYPE_CHECKING:
    from hipcache.executor.protocol import ExecutionResult, Program, Workers

RENEW = 600.0
_TICK = 0.1
# Of an address's timeout: after which a server that runs an action is asked whether it is still there, and until the
# library must have said whether it is.
_PULSE, _SILENCE = 5.0, 10.0
_THREADS = 256
# Faults of single actions, of which some may be the action's own: so many in a row are the server's.
_SINGLE, _MOST_FAULTS = (STATUS, "no output", "worker", "limit"), 3
_HINTS = {
    TOOLCHAIN: "correct the image that its platform properties select; without 'installed' hipcache uploads its own",
    DENIED: "check its token-file or header-file, and that this user may use it",
    SETTINGS: "correct HIPCACHE_EXECUTOR",
}
_HINT = "the compile ran on this machine; 'hipcache doctor' checks the executor"

Say = Callable[[dict[str, Any]], None]


@dataclass
class Server:
    """`connect` is called when it is first needed. `implied`: the settings name it as a remote alone, so nothing is
    told of it until it has run something."""

    executor: ExecutorAddress
    connect: Callable[[], Workers]
    breaker: Breaker
    implied: bool = False
    _workers: Workers | None = None
    _programs: dict[Any, tuple[float, Future[Program]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _faults: int = 0

    def workers(self) -> Workers:
        """Raises RemoteError."""
        with self._lock:
            if self._workers is None:
                self._workers = self.connect()
            return self._workers

    def program(self, path: str, files: Sequence[str], pool: ThreadPoolExecutor) -> Program | None:
        """None while it is on its way. Raises RemoteError, OSError."""
        key = (path, tuple(files), tuple(map(known_by, files)))
        with self._lock:
            uploaded, future = self._programs.get(key, (0.0, None))
            if future is None or (future.done() and time.monotonic() - uploaded > RENEW):
                future = pool.submit(self._uploaded, path, files)
                self._programs[key] = (time.monotonic(), future)
        if not future.done():
            wait([future], _TICK)
        return future.result() if future.done() else None

    def _uploaded(self, path: str, files: Sequence[str]) -> Program:
        if self.executor.installed:
            from hipcache.executor import protocol

            return protocol.checked(self.workers(), protocol.read_installed(path, files))
        from hipcache.executor.protocol import program_of

        program = program_of(path, files)
        self.workers().upload(program)
        return program

    def forget(self) -> None:
        """Look again for what is there."""
        with self._lock:
            self._programs = {key: program for key, program in self._programs.items() if not program[1].done()}

    def well(self) -> None:
        self._faults, self.implied = 0, False

    def told(self, words: str, kind: str = "") -> list[str] | None:
        name = self.executor.address.name
        return None if self.implied else [f"executor '{name}': {words}", _HINTS.get(kind, _HINT)]

    def failed(self, error: Exception) -> dict[str, Any]:
        """The answer to who had asked for it."""
        kind = error.kind if isinstance(error, RemoteError) else "helper"
        words = str(error) if isinstance(error, RemoteError) else f"{type(error).__name__}: {error}"
        if kind == STATUS:  # it may be the user's own error: a run of that machine tells (see `blame`)
            return {"end": "failed", "why": words, "quiet": self.implied}
        if kind != TOOLCHAIN:  # another program may be the same there: this one is looked at again after RENEW seconds
            self.blame(kind, words)
        return {"end": "fault", "kind": kind, "told": self.told(words, kind)}

    def blame(self, kind: str, words: str) -> None:
        """That fault is its own."""
        with self._lock:
            self._faults += 1
            is_ill = kind not in _SINGLE or self._faults >= _MOST_FAULTS
        if is_ill:
            self.breaker.open(words)
        self.forget()

    def probe(self) -> None:
        """Is it well again?"""
        try:
            self.workers().check()
        except Exception:
            return
        self._faults = 0
        self.breaker.close()


class ExecutionService:
    """Those of the settings. Raises ConfigError."""

    def __init__(self, config: Config) -> None:
        implied = workers.is_implied(config)
        self._servers = [_server(workers.parse(text), implied=implied) for text in workers.named(config)]
        self._pool = ThreadPoolExecutor(_THREADS, "execution")

    def run(self, request: Mapping[str, Any], say: Say) -> dict[str, Any]:
        """The last answer. Raises OSError where nobody waits for it any more."""
        server = self._servers[int(request["executor"])]
        if server.breaker.is_to_be_probed():
            self._pool.submit(server.probe)
        if server.breaker.why:
            return {"end": "fault", "kind": "down", "told": server.told(server.breaker.why)}
        watch = Watch()
        future = self._pool.submit(self._executed, server, request, watch)
        pulse = self._pulse(server)
        try:
            while not future.done():
                wait([future], _TICK)
                say({"at": watch.at})
                next(pulse)
        except RemoteError as error:
            watch.end()
            return server.failed(error)
        except OSError:
            watch.end()
            raise
        try:
            made = future.result()
            if made is None:
                return {"end": "later"}
            for name, path in request["outputs"].items():
                Path(path).write_bytes(made.outputs[name])
        except Exception as error:
            return server.failed(error)
        server.well()
        return {"end": "done", "text": made.text, "seconds": made.seconds}

    def blame(self, request: Mapping[str, Any]) -> None:
        self._servers[int(request["executor"])].blame(str(request["kind"]), str(request["why"]))

    def _pulse(self, server: Server) -> Iterator[None]:
        """Each step looks whether it is still there: nothing comes of an action until it ends. Raises RemoteError."""
        timeout = server.executor.address.timeout
        while True:
            begun = time.monotonic()
            while time.monotonic() - begun < _PULSE * timeout:
                yield
            asked, begun = self._pool.submit(lambda: server.workers().check()), time.monotonic()
            while not asked.done():
                if time.monotonic() - begun > _SILENCE * timeout:
                    raise RemoteError(UNREACHABLE, "it no longer answers")
                yield
            asked.result()

    def _executed(self, server: Server, request: Mapping[str, Any], watch: Watch) -> ExecutionResult | None:
        """None while the program is on its way. Raises RemoteError, OSError."""
        from hipcache.executor.protocol import RemoteCommand

        program = server.program(str(request["program"]), [str(file) for file in request["files"]], self._pool)
        if program is None:
            return None
        inputs = {str(name): Path(path).read_bytes() for name, path in request["inputs"].items()}
        work = RemoteCommand(program, tuple(map(str, request["words"])), inputs, tuple(map(str, request["outputs"])))
        return server.workers().run(work, watch)


def examine(text: str) -> tuple[bool, str, str]:
    """Is the executor with that address well? Yes or no, in words, what to do."""
    try:
        server = _server(workers.parse(text))
        name = f"executor '{server.executor.address.name}'"
        began = time.monotonic()
        server.workers().check()
        milliseconds = (time.monotonic() - began) * 1000
        return True, f"{name} runs actions; it answered within {milliseconds:.0f} ms", ""
    except ConfigError as error:
        return False, error.message, error.hint
    except ImportError as error:
        return False, f"{name} needs {error.name}", address.install()
    except RemoteError as error:
        return False, f"{name}: {error}", error.hint or _HINTS.get(error.kind, "check the server and its address")


def _server(executor: ExecutorAddress, *, implied: bool = False) -> Server:
    def connect() -> Workers:
        from hipcache.executor import protocol

        return protocol.connect(executor, backend.read_credentials(executor.address))

    return Server(executor, connect, Breaker(executor.address.timeout), implied)
