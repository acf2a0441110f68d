"""A proxy that counts round trips in sequence: it holds all answers back until the client can do nothing without them.

So requests that go out side by side are one turn, however slow the machine is, and a request that needs an answer is in
the next one. The client can do nothing more when all it has sent is read, and none of its threads has run between two
looks at them (proc(5): the state, and the switches of context). Its processes are those that have its store in their
environment. Of HTTP/1.1 all that a client sends is a request; of HTTP/2 its HEADERS frames are (RFC 9113, 4.1, 6.2),
and until the first one nothing is held back, since gRPC waits for the server's settings.
"""

from __future__ import annotations

import array
import fcntl
import os
import select
import socket
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

# Seconds: between two looks; at most until an answer goes through.
_APART, _LONGEST = 0.005, 15.0
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADERS = 1


@dataclass
class Turns:
    """`count`: of round trips so far; `port`: where it listens; `store`: the client's."""

    listener: socket.socket
    store: Path = Path("/absent")
    count: int = 0
    _answered: bool = True
    _sent: int = 0
    _clients: list[socket.socket] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def begin(self) -> None:
        """Count from here on; nothing is under way."""
        self.count, self._answered = 0, True

    def accept(self) -> socket.socket:
        """Raises OSError."""
        select.select([self.listener], (), ())
        with self._changed:
            near, _ = self.listener.accept()
            self._clients.append(near)
        return near

    def asked(self) -> None:
        with self._changed:
            self.count += self._answered
            self._answered, self._sent = False, self._sent + 1

    def hold(self) -> None:
        """An answer, until it is to be let through."""
        with self._changed:
            self._changed.wait_for(lambda: self._answered, _LONGEST)
            self._answered = True

    def watch(self) -> None:
        """Let answers through when they are due, until the listener ends."""
        with suppress(OSError, ValueError):
            while self.listener.fileno() >= 0:
                sent = self._sent
                if self._answered or not self._is_at_rest():
                    time.sleep(_APART)
                    continue
                with self._changed:
                    self._answered = self._answered or sent == self._sent
                    self._changed.notify_all()

    def _is_at_rest(self) -> bool:
        """A thread that has run meanwhile, or a process that it has started, is seen."""
        processes = self._processes()
        before = _switches(processes)
        time.sleep(_APART)
        with self._changed:
            all_is_read = not any(map(_unread, self._clients)) and not select.select([self.listener], (), (), 0)[0]
        unchanged = before is not None and before == _switches(processes)
        return all_is_read and unchanged and processes == self._processes()

    def _processes(self) -> list[Path]:
        mine = b"HIPCACHE_DIR=" + os.fsencode(self.store)
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mine in (process / "environ").read_bytes().split(b"\0"):
                    found.append(process)
        return found


def _switches(processes: list[Path]) -> dict[str, list[str]] | None:
    """How often each thread was taken from its processor; None while one runs, is to run, or waits for the disk."""
    found = {}
    for process in processes:
        with suppress(OSError):
            for task in os.listdir(process / "task"):
                lines = (process / "task" / task / "status").read_text().splitlines()
                if not any(line.startswith("State:\tS") for line in lines):
                    return None
                found[task] = lines[-2:]
    return found


def _unread(one: socket.socket) -> int:
    """Bytes."""
    size = array.array("i", [0])
    with suppress(OSError):
        fcntl.ioctl(one, termios.FIONREAD, size)
    return size[0]


def _pump_requests(turns: Turns, near: socket.socket, far: socket.socket) -> None:
    known, is_new = b"", False
    with suppress(OSError):
        # What is only looked at counts as unread until it is counted.
        while data := near.recv(1 << 16, socket.MSG_PEEK):
            known += data
            if not is_new and known.startswith(_PREFACE):
                known, is_new = known[len(_PREFACE) :], True
            if not is_new and not _PREFACE.startswith(known):
                known = b""
                turns.asked()
            while is_new and len(known) >= 9 and len(known) >= 9 + int.from_bytes(known[:3], "big"):
                if known[3] == _HEADERS:
                    turns.asked()
                known = known[9 + int.from_bytes(known[:3], "big") :]
            far.sendall(near.recv(len(data)))
    with suppress(OSError):
        far.shutdown(socket.SHUT_WR)


def _pump_answers(turns: Turns, near: socket.socket, far: socket.socket) -> None:
    with suppress(OSError):
        while data := far.recv(1 << 16):
            turns.hold()
            near.sendall(data)
    with suppress(OSError):
        near.shutdown(socket.SHUT_WR)


@contextmanager
def counted(port: int) -> Iterator[Turns]:
    """Before the server at that port."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        turns = Turns(listener)

        def serve() -> None:
            with suppress(OSError, ValueError):
                while True:
                    near = turns.accept()
                    far = socket.create_connection(("127.0.0.1", port))
                    for one in (near, far):
                        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    for pump in (_pump_requests, _pump_answers):
                        threading.Thread(target=pump, args=(turns, near, far), daemon=True).start()

        for work in (serve, turns.watch):
            threading.Thread(target=work, daemon=True).start()
        yield turns
        listener.shutdown(socket.SHUT_RDWR)
