"""Serves engines of tests that are forked off this process, which has imported all.

    python -E engine_server.py DIRECTORY

serves `forked_engine.c`, the engine beside the launcher in DIRECTORY, until the process that started it ends; it is
none of that one's children, which a test may wait for. What is the same as with an engine of its own: the script's
text, the process group, the directory, the environment, the standard streams, signals, and the limits, users and
namespaces, since with others it is not forked. Nothing of hipcache has run before: its modules are loaded with their
patterns compiled, and no cache of theirs has an entry.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

import hipcache
from hipcache.base import patterns

#: Where the server listens, in the directory of the launcher.
SOCKET = "engines"
#: Modules that need packages which may be missing, or that are none.
NOT_YET = ("__main__", "remote", "executor")


@dataclass
class Client:
    """A connection. `pid`: its engine, 0 until it has been told all."""

    peer: socket.socket
    size: int = -1
    received: bytes = b""
    streams: list[int] = field(default_factory=list)
    pid: int = 0


class Server:
    """Forks. `usual`: the surroundings that a client must have. `script`: the engine."""

    def __init__(self, listening: socket.socket, usual: bytes, script: CodeType) -> None:
        self.listening, self.usual, self.script = listening, usual, script
        self.clients: dict[int, Client] = {}
        self.selector = selectors.DefaultSelector()
        self.woken, self.wakes = socket.socketpair()
        for one in (self.woken, self.wakes, listening):
            one.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wakes.fileno(), warn_on_full_buffer=False)
        self.selector.register(listening, selectors.EVENT_READ)
        self.selector.register(self.woken, selectors.EVENT_READ)
        self.selector.register(0, selectors.EVENT_READ)

    def serve(self) -> None:
        """Until standard input ends, which its parent holds."""
        while True:
            for key, _ in self.selector.select():
                if key.fd == 0:
                    return
                if key.fileobj is self.listening:
                    self._accept()
                elif key.fileobj is self.woken:
                    self.woken.recv(4096)
                    self._reap()
                elif key.fd in self.clients:
                    self._hear(self.clients[key.fd])

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            peer, _ = self.listening.accept()
            self.clients[peer.fileno()] = Client(peer)
            self.selector.register(peer, selectors.EVENT_READ)

    def _hear(self, client: Client) -> None:
        if client.size < 0:
            data, client.streams, _, _ = socket.recv_fds(client.peer, 4, 3)
            client.size = int.from_bytes(data, sys.byteorder)
            return
        data = client.peer.recv(1 << 20)
        if not data:
            self._forget(client)
            if client.pid:  # the client was killed
                os.kill(client.pid, signal.SIGKILL)
                client.pid = 0
        elif client.pid:
            for number in data:
                os.kill(client.pid, number)
        else:
            client.received += data
            if len(client.received) == client.size:
                self._begin(client)

    def _begin(self, client: Client) -> None:
        surroundings, group, cwd, count, *words = client.received.split(b"\0")[:-1]
        if surroundings != self.usual:
            client.peer.send(b"n")
            self._forget(client)
            return
        client.pid = os.fork()
        if not client.pid:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # as the launcher leaves it
            become(self.script, client.streams, int(group), cwd, words[: int(count)], words[int(count) :])
        for stream in client.streams:
            os.close(stream)
        client.streams = []

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            for client in [one for one in self.clients.values() if one.pid == pid]:
                client.pid = 0
                with suppress(OSError):
                    client.peer.send(status.to_bytes(4, sys.byteorder))
                self._forget(client)

    def _forget(self, client: Client) -> None:
        self.selector.unregister(client.peer)
        del self.clients[client.peer.fileno()]
        client.peer.close()
        for stream in client.streams:
            os.close(stream)


def become(
    script: CodeType, streams: list[int], group: int, cwd: bytes, argv: list[bytes], environ: list[bytes]
) -> None:
    """What runs that script, in a process of its own. Does not return."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for one in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
            signal.signal(one, signal.SIG_DFL)
        os.setpgid(0, group)
        os.chdir(cwd)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, 256)
        _open_streams()
        os.environ.clear()
        for word in environ:
            name, _, value = word.partition(b"=")
            os.environb[name] = value
        sys.argv[:] = map(os.fsdecode, argv)
        exec(script, {"__name__": "__main__"})
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _open_streams() -> None:
    """Those of Python, anew: they know whether a file can be sought in."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        mode, by_line = "w" if number else "r", number == 2
        buffering = 1 if by_line else -1
        new = open(number, mode, buffering, encoding=old.encoding, errors=old.errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, new)


def _import_all() -> None:
    """Errors: AssertionError, if a module has begun to work."""
    for module in pkgutil.walk_packages(hipcache.__path__, "hipcache."):
        if not module.name.startswith(tuple(f"hipcache.{name}" for name in NOT_YET)):
            importlib.import_module(module.name)
    sys.path.append(str(Path(__file__).parent))
    importlib.import_module("shared_memos")
    sys.path.pop()
    for found in gc.get_objects():
        if isinstance(found, functools._lru_cache_wrapper) and found.__module__.startswith("hipcache"):
            assert found.cache_info().currsize == 0, found
        elif type(found) is patterns.pattern:
            assert found.match  # compiles it, which costs an engine 5 ms
    assert threading.active_count() == 1


def main(directory: str) -> None:
    sys.path[:1] = [directory]  # as the script has it
    script = Path(directory, "hipcache-engine.py")
    asked = subprocess.run([Path(directory, "hipcache"), "--surroundings"], capture_output=True, check=True)
    _import_all()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(os.path.join(directory, SOCKET))
    listening.listen(64)
    if os.fork():
        os._exit(0)
    gc.collect()
    gc.freeze()
    Server(listening, asked.stdout, compile(script.read_text(), script, "exec")).serve()


if __name__ == "__main__":
    main(sys.argv[1])
