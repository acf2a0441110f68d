"""A lab whose headers are the system's, with a resident of its own that watches them, or a fake one."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from blake3 import blake3
from direct_lab import Direct
from hip import ARCHS, FULL, LAUNCHER, Lab
from hipcache import __version__

HOLDS, TELL, CANNOT_SAY = b"y", b"t", b"n"
NAME = f"resident-3-{__version__}"


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path: the name of a socket has 107 characters at most. On the disk: in memory (tmpfs), where this run may
    have /tmp, a file that is written through a mapping keeps its times."""
    place = Path(tempfile.mkdtemp(prefix="hc-", dir="/var/tmp"))
    yield place
    for process in residents(place):
        os.kill(process, signal.SIGKILL)
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def system(home: Path) -> System:
    lab = Lab.make(home, "19")
    lab.archs = ARCHS if FULL else ARCHS[:1]
    lab.write("k.hip", '#include "value.hpp"\nextern "C" __global__ void kernel(int* p) { p[0] = VALUE; }\n')
    tree = home / "system"
    for name in ("first", "include"):
        (tree / name).mkdir(parents=True)
    (tree / "include/value.hpp").write_text('#include "hip_in_short.hpp"\n#define VALUE 1\n')
    (lab.root / "hip_in_short.hpp").rename(tree / "include/hip_in_short.hpp")
    lab.environ |= {"HIPCACHE_SYSTEM_PATHS": f"{tree}:/usr:/lib:/etc:/bin", "XDG_RUNTIME_DIR": str(home)}
    if subprocess.run(["stat", "-f", "-c", "%T", home], capture_output=True, check=True).stdout.strip() in (
        b"overlayfs",
        b"nfs",
    ):
        pytest.skip("files here cannot be watched")
    made = System(lab, home, tree, Direct(lab, home / "alone"))
    first = lab.hipcache(*lab.words("-DFIRST", *made.flags), env={"HIPCACHE_RESIDENT": "0"})  # compares all variables
    assert first.status == 0, first.err
    lab.count_anew()
    return made


def residents(place: Path) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                variables = (process / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"hipcache", b"--resident"] and f"XDG_RUNTIME_DIR={place}".encode() in variables:
                found.append(int(process.name))
    return found


@dataclass
class System:
    """A lab whose headers are the system's, and the resident of `home`."""

    lab: Lab
    home: Path
    tree: Path
    direct: Direct

    @property
    def flags(self) -> tuple[str, ...]:
        return (f"-I{self.tree}/first", f"-I{self.tree}/include")

    @property
    def header(self) -> Path:
        return self.tree / "include/value.hpp"

    @property
    def address(self) -> Path:
        return self.home / "hipcache" / NAME

    def start(self, *words: str) -> None:
        subprocess.Popen(
            ["hipcache", "--resident", *words],
            executable=LAUNCHER[0],
            env={"XDG_RUNTIME_DIR": str(self.home)},
            stdin=subprocess.DEVNULL,
            cwd="/",
        )
        self.wait_for(self.answers)

    def answers(self) -> bool:
        try:
            self.ask(b"?" + bytes(63))
        except OSError:
            return False
        return True

    def ask(self, question: bytes) -> bytes:
        """What is said of the system's files."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
            asking.connect(str(self.address))  # waits its turn, where many ask
            asking.settimeout(60)
            asking.send(question)
            return asking.recv(2)

    @staticmethod
    def wait_for(what: Callable[[], bool], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < end, "it never came"
            time.sleep(0.02)

    def served(self, resident: bool = True) -> bool:
        """Is the compile a direct hit?"""
        return self.direct.ask(*self.flags, env={"HIPCACHE_RESIDENT": "1" if resident else "0"})

    def warm(self) -> bytes:
        """Served from now on, with a resident that knows it. Gives the question that is put to it."""
        self.lab.warm(*self.flags)
        question = self.question()
        if not self.answers():
            self.start()

        def known() -> bool:
            assert self.served()
            return self.ask(question) == HOLDS

        self.wait_for(known)
        return question

    def question(self) -> bytes:
        """What the next hit asks."""
        with Fake(self.home / "fake", CANNOT_SAY) as fake:
            assert self.direct.ask(*self.flags, env={"HIPCACHE_RESIDENT": "1", "XDG_RUNTIME_DIR": str(fake.home)})
        (question,) = fake.heard
        return question

    def blob(self) -> Path:
        """Of the object."""
        assert self.served()
        name = blake3((self.lab.root / "out.o").read_bytes()).hexdigest()
        return self.lab.store / "v2/blobs" / name


class Fake:
    """A resident that says the same to everyone. `heard`: the first packet of each that asked."""

    def __init__(self, home: Path, says: bytes, name: str = NAME) -> None:
        self.home, self._says = home, says
        self.heard: list[bytes] = []
        (home / "hipcache").mkdir(parents=True, mode=0o700, exist_ok=True)
        (home / "hipcache" / name).unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(home / "hipcache" / name))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Fake:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                asking, _ = self._listener.accept()
            except OSError:
                return
            with asking:
                asking.settimeout(60)
                try:
                    self.heard.append(asking.recv(1 << 18))
                    if self._says:
                        asking.send(self._says)
                    asking.recv(1 << 18)
                except OSError:  # who asked has waited long enough
                    continue
