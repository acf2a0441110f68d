"""How many round trips in sequence a compile costs that a remote has: not more for more architectures."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hip import ENGINE_ALONE, Lab, kernel, settle
from hipcache.remote import sockets
from remote_lab import SECONDS, SERVERS, running, uploaded
from remote_team import patient
from test_prefetch import Machines
from test_remote_asked import UNSERVED, alone
from turns_proxy import Turns, counted

ARCHES = ("gfx803", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx1010", "gfx1030", "gfx1031", "gfx1032", "gfx1100")
CASES = [("nginx", 8), ("casd", 8), ("nginx", 1), ("casd", 4), ("nginx", 10), ("casd", 10)]


def architectures(words: list[str]) -> list[str]:
    option = "--offload-arch="
    return [word.removeprefix(option) for word in words if word.startswith(option)]


@pytest.fixture(params=CASES, ids=[f"{kind}-{count}" for kind, count in CASES])
def far(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Lab, list[str], bytes, Turns]]:
    """A machine with an empty store, a command, its object, and the turns to a remote that has it. The parameter: which
    remote, and for how many architectures the command is."""
    kind, count = request.param
    with running(SERVERS[kind](tmp_path / "server")) as server, counted(server.port) as turns:
        machines = Machines(tmp_path, patient(server.url))
        first = machines.fresh()
        words = machines.commands(first, *(f"--offload-arch={arch}" for arch in ARCHES[:count]))[0]
        assert first.run([*ENGINE_ALONE, *words]).status == 0
        content = (first.root / words[-1]).read_bytes()
        uploaded(first)
        (first.root / words[-1]).unlink()
        url = f"{patient(server.url)}&read-only".replace(f":{server.port}", f":{turns.port}")
        second = machines.fresh(HIPCACHE_REMOTE=url)
        turns.store = second.store
        yield second, words, content, turns
        machines.team.end()


def test_the_native_program_has_a_whole_compile_in_two_round_trips(far: tuple[Lab, list[str], bytes, Turns]) -> None:
    lab, words, content, turns = far
    native = alone(lab.root)
    lab.write("new.hip", kernel("77"))
    settle()
    other = [word.replace("k.hip", "new.hip") for word in words]
    # On a busy machine a helper may say nothing for two seconds: then the next one starts after a minute.
    end = time.monotonic() + 60 + SECONDS
    while asked(lab, other) != b"n":
        assert time.monotonic() < end, "no helper comes up"
        assert lab.run([native, *other]).status == UNSERVED
    turns.begin()
    assert asked(lab, words) == b"y"
    assert lab.run([native, *words]).status == 0
    assert (lab.root / words[-1]).read_bytes() == content
    assert turns.count == 2


def asked(lab: Lab, words: list[str]) -> bytes:
    """The answer to the question that the native program has for the helper; that one waits no longer than two seconds
    for it. Empty where no helper answers."""
    variables = [f"{name}={value}" for name, value in lab.environ.items()]
    text = b"".join(os.fsencode(one) + b"\0" for one in (str(lab.root), *words, *variables))
    with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
        connection.settimeout(2 * SECONDS)
        runtime = Path(lab.environ["XDG_RUNTIME_DIR"]) / "hipcache"
        sockets.near(str(next(runtime.glob("door-*[!k]"), runtime / "absent")), connection.connect)
        connection.sendall(b"ask %d %d\n" % (len(text), len(words)) + text)
        return connection.makefile("rb").read().strip()
    return b""


def test_the_engine_has_all_parts_in_three_round_trips(far: tuple[Lab, list[str], bytes, Turns]) -> None:
    lab, words, content, turns = far
    ended = lab.run([*ENGINE_ALONE, *words])
    assert (ended.status, ended.err) == (0, b"")
    assert (lab.root / words[-1]).read_bytes() == content
    assert lab.stats()["compiles"]["hit"] == 1  # type: ignore[index]
    units = lab.stats()["units"]
    asked = architectures(words)
    assert [units[arch] for arch in asked] == [{"hits": 1, "misses": 0}] * len(asked)  # type: ignore[index]
    assert turns.count == 3
