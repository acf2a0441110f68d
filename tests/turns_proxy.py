"""A proxy that counts round trips in sequence: it holds all answers back until no request has come for a while.

So requests that go out side by side are one turn, however slow the machine is, and a request that needs an answer is in
the next one. Of HTTP/1.1 all that a client sends is a request; of HTTP/2 its HEADERS frames are (RFC 9113, 4.1, 6.2),
and until the first one nothing is held back, since gRPC waits for the server's settings.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

QUIET = 0.4
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEADERS = 1


@dataclass
class Turns:
    """`count`: of round trips so far; `port`: where it listens."""

    port: int
    count: int = 0
    _answered: bool = True
    _asked: bool = False
    _last: float = 0.0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def begin(self) -> None:
        """Count from here on, when nothing is under way."""
        end = time.monotonic() + 20
        while time.monotonic() - self._last < 2 * QUIET:
            assert time.monotonic() < end, "it does not become quiet"
            time.sleep(QUIET / 4)
        self.count, self._answered = 0, True

    def asked(self) -> None:
        with self._changed:
            self.count += self._answered
            self._answered, self._asked, self._last = False, True, time.monotonic()

    def hold(self) -> None:
        """An answer, until it is to be let through."""
        while self._asked and time.monotonic() - self._last < QUIET:
            time.sleep(0.02)
        with self._changed:
            self._answered = True


def _pump_requests(turns: Turns, near: socket.socket, far: socket.socket) -> None:
    known, is_new = b"", False
    with suppress(OSError):
        while data := near.recv(1 << 16):
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
            far.sendall(data)
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
        turns = Turns(listener.getsockname()[1])

        def serve() -> None:
            with suppress(OSError):
                while True:
                    near, _ = listener.accept()
                    far = socket.create_connection(("127.0.0.1", port))
                    for one in (near, far):
                        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    for pump in (_pump_requests, _pump_answers):
                        threading.Thread(target=pump, args=(turns, near, far), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield turns
        listener.shutdown(socket.SHUT_RDWR)
