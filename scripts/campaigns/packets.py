"""Packets: the resident is sent noise, and packets of the launcher that were cut, changed and mixed up."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from campaigns.misfortune import Campaign
from campaigns.place import Finding

# Longer ones than the longest list (resident.c: PACKET).
LONGEST = 1 << 18
PATIENCE = 20.0
# Packets are cheap, and a look at the process is not.
LOOK_EACH = 500
MOST_KIB = 200_000  # of memory


class Packets(Campaign):
    """Random and cut packets to the resident's socket: it answers on, says nothing that is not so, and stays small."""

    name = "packets"
    trials = 20_000

    def begin(self) -> None:
        super().begin()
        self.heard = self._listen()
        resident = self.place.start([self.place.launcher[0], "--resident"], resident=True)
        self.resident = resident
        _wait_for(self._answers, "the resident does not come up")
        self.process = next(iter(self.place.residents()), resident.pid)

    def _listen(self) -> list[bytes]:
        """What launchers send: to a listener that says that it knows nothing."""
        compiled: list[bytes] = []
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
            self.place.compile(resident=True)  # it starts a resident, which tells the socket's name
            _wait_for(lambda: self._address() is not None, "no resident came up")
            address = self._address()
            assert address
            self.place.end()
            _wait_for(lambda: not self.place.residents(), "the resident does not end")
            address.unlink()
            probe.bind(str(address))
            probe.listen(8)
            probe.settimeout(PATIENCE)
            for _ in range(3):
                process = self.place.start(self.place.words(), resident=True)
                asking, _ = probe.accept()
                with asking:
                    asking.settimeout(PATIENCE)
                    compiled.append(asking.recv(LONGEST))
                    with suppress(OSError):
                        asking.send(b"tt")
                        while packet := asking.recv(LONGEST):
                            compiled.append(packet)
                self.place.wait(process)
        address.unlink(missing_ok=True)
        return compiled

    def _address(self) -> Path | None:
        found = [path for path in (self.place.root / "run" / "hipcache").glob("*") if path.is_socket()]
        return found[0] if found else None

    def _answers(self) -> bool:
        try:
            return bool(self._send([self.heard[0]], wait=True))
        except OSError:
            return False

    def _send(self, packets: list[bytes], *, wait: bool = False) -> bytes:
        address = self._address()
        if address is None:
            raise FileNotFoundError("the resident's socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
            # Where many ask it waits its turn; a socket with a timeout of Python's would not.
            asking.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(PATIENCE), 0))
            asking.connect(str(address))
            asking.settimeout(PATIENCE)
            for packet in packets:
                with suppress(OSError):
                    asking.send(packet)
            with suppress(OSError):
                if wait:
                    return asking.recv(16)
        return b""

    def trial(self, number: int, dice: Random) -> None:
        packets = [self._packet(dice) for _ in range(dice.choice([1, 1, 1, 2, 5]))]
        try:
            self._send(packets)
        except OSError as error:
            raise Finding(f"it does not listen any more: {error}") from None
        if number % LOOK_EACH == 0:
            self._look(dice)

    def _packet(self, dice: Random) -> bytes:
        kind = dice.choice(["noise", "cut", "changed", "grown", "kind", "mixed", "whole"])
        self.tally[kind] += 1
        one = dice.choice(self.heard)
        if kind == "noise":
            return dice.randbytes(dice.choice([0, 1, 2, 33, 64, 97, dice.randrange(4096)]))
        if kind == "cut":
            return one[: dice.randrange(len(one))]
        if kind == "grown":
            return one + dice.randbytes(dice.choice([1, 100, 200_000]))
        if kind == "kind":
            return dice.choice([b"?", b"!", b"+", dice.randbytes(1)]) + one[1:]
        if kind == "mixed":
            other = dice.choice(self.heard)
            return one[: dice.randrange(len(one))] + other[dice.randrange(len(other)) :]
        changed = bytearray(one)
        for _ in range(0 if kind == "whole" else dice.choice([1, 1, 8])):
            changed[dice.randrange(len(changed))] = dice.randrange(256)
        return bytes(changed)

    def _look(self, dice: Random) -> None:
        """Of a state that nobody told it, it must not say that it holds."""
        if self.resident.poll() is not None:
            raise Finding(f"it ended with {self.resident.returncode}")
        question = bytearray(self.heard[0])
        question[-64:] = dice.randbytes(64)
        answer = self._send([bytes(question)], wait=True)
        if b"y" in answer:
            raise Finding(f"it vouches for what it cannot know: {answer!r}")
        kib = int(Path(f"/proc/{self.process}/status").read_text().partition("VmRSS:")[2].split()[0])
        if kib > MOST_KIB:
            raise Finding(f"it takes {kib} KiB")

    def end(self) -> None:
        """After all of that, its word is still as good as a look at the files."""
        self._look(Random(1))
        for value in "89":
            (self.place.work / "value.hpp").write_text(f"#define VALUE {value}\n")
            plain = self.place.run(self.place.words()[len(self.place.launcher) :])
            self.place.golden["k0.hip"] = self.place.object_of().read_bytes()
            if plain.status != 0:
                raise Finding("plain clang fails")
            self.place.compile(resident=True)
        with suppress(ProcessLookupError):
            os.kill(self.process, 9)
        with suppress(subprocess.TimeoutExpired):
            self.resident.communicate(timeout=5)


def _wait_for(what: object, why: str) -> None:
    assert callable(what)
    end = time.monotonic() + PATIENCE
    while not what():
        if time.monotonic() > end:
            raise Finding(why)
        time.sleep(0.02)
