"""Signals and kills: the launcher ends its compilers, and leaves nothing."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hip import ARCHS, LAUNCHER, Lab, kernel, only_15, script

pytestmark = pytest.mark.archs(1)

SLOW = kernel("1") + "".join(
    f"__global__ void slow{i}(float* p) {{ for (int j = 0; j < 9; ++j) p[j] = p[j + {i}] * p[j] / {i + 1}; }}\n"
    for i in range(150)
)


def started(lab: Lab, *more: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*LAUNCHER, *lab.words("-O3", *more)],
        cwd=lab.root,
        env=lab.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def session_members(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def has_driver_with_job(session: int) -> bool:
    """Does a process of the session run a pass for a driver, and not for hipcache's engine?"""
    words: dict[int, list[bytes]] = {}
    parents: dict[int, int] = {}
    for pid in session_members(session):
        with suppress(OSError):
            words[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    passes = [parents[pid] for pid in parents if b"-cc1" in words[pid]]
    return any(parent in words and not words[parent][0].endswith(b"hipcache-engine") for parent in passes)


def leftovers(lab: Lab) -> list[str]:
    return [
        str(path)
        for path in [*lab.root.iterdir(), *lab.store.rglob("tmp/*")]
        if path.name not in ("hip_in_short.hpp", "k.hip", "out.o")
    ]


@pytest.mark.archs(2)
@only_15
@pytest.mark.sampled(2)
@pytest.mark.parametrize("archs", [1, 2], ids=["one-arch", "two-archs"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_a_signal_ends_the_compilers_and_leaves_nothing(lab: Lab, number: signal.Signals, archs: int) -> None:
    lab.write("k.hip", SLOW)
    for delay in (0.15, 0.3, 0.5, 0.8):
        process = started(lab, *ARCHS[:archs])
        time.sleep(delay)
        process.send_signal(number)
        status = process.wait(timeout=100)
        assert status in (-number, 0)
        deadline = time.monotonic() + 60
        while session_members(process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert session_members(process.pid) == []
        assert leftovers(lab) == []
        (lab.root / "out.o").unlink(missing_ok=True)


def test_an_interrupted_failing_compile_ends_by_the_signal(lab: Lab) -> None:
    compiler = script(lab.root / "cxx", 'case "$*" in *-###*) exit 1;; esac; exec sleep 30\n')
    process = subprocess.Popen([*LAUNCHER, compiler, "-c", "k.hip"], cwd=lab.root, env=lab.environ)
    time.sleep(0.6)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=100) == -signal.SIGTERM


@pytest.mark.archs(2)
@only_15
def test_two_signals_end_a_failing_compile_and_the_job_of_its_driver(lab: Lab) -> None:
    """Plain clang finds the host's error after the slow device pass: the user's own command is under way for long. (It
    runs since a word names a place below /dev, which may be a stream.)"""
    lab.write("k.hip", SLOW + "\n#if !defined(__HIP_DEVICE_COMPILE__)\n#error on the host only\n#endif\n")
    process = started(lab, *ARCHS[:1], "-DNOWHERE=/dev/null")
    deadline = time.monotonic() + 60
    while not has_driver_with_job(process.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=100) in (-signal.SIGINT, -signal.SIGTERM)
    deadline = time.monotonic() + 60
    while session_members(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert session_members(process.pid) == []


@pytest.mark.archs(2)
@only_15
def test_a_compile_that_is_ended_gives_makes_jobs_back(lab: Lab) -> None:
    lab.write("k.hip", SLOW)
    command = " ".join([*LAUNCHER, *lab.words("-O3", "--offload-arch=gfx1030", *ARCHS)])
    lab.write("Makefile", f"all: a b\na:\n\t+-timeout -s TERM 0.7 {command}\nb:\n\tsleep 1\n")
    ended = lab.run(["make", "-j3"])
    assert b"jobserver tokens" not in ended.err
    assert b"tokens available" not in ended.err
