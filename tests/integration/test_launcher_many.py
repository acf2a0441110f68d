"""Many launchers at once: each unit is compiled once, and no more compilers run than may."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace as with_changes
from pathlib import Path

import pytest
from hip import ARCHS, BARE, CUID, HIT, LAUNCHER, LLVM, MISS, Lab, kernel, only_15, watched_compiler

pytestmark = pytest.mark.archs(1)


@pytest.mark.archs(2)
@only_15
def test_many_processes_on_one_store_compile_each_unit_once(lab: Lab) -> None:
    words = lab.words()
    assert lab.run(words).status == 0
    right = (lab.root / "out.o").read_bytes()

    def compile(number: int) -> bytes:
        output = lab.root / f"{number}.o"
        ended = lab.hipcache(*lab.words(output=str(output)))
        assert (ended.status, ended.err) == (0, b"")
        return output.read_bytes()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(compile, range(16))) == {right}
    units = lab.stats()["units"]
    assert {name: units[name]["misses"] for name in ("gfx906", "gfx90a", "host")} == {  # type: ignore[index]
        "gfx906": 1,
        "gfx90a": 1,
        "host": 1,
    }


@only_15
def test_a_reader_never_sees_half_an_object_or_half_a_dependency_file(lab: Lab) -> None:
    """While the engine writes two of them by turns, and then the native launcher."""
    flags = ("-MD", *(f"-DMACRO_{number}" for number in range(200)))
    whole: set[bytes] = set()
    for value in ("1", "2"):
        lab.write(f"{value}.hpp", "")
        text = f'\n#include "{value}.hpp"\nextern const char big[] = "' + value * 3_000_000 + '";\n'
        lab.write(f"{value}.hip", kernel(value) + text)
        assert lab.run(lab.words(*flags, source=f"{value}.hip")).status == 0
        whole |= {(lab.root / name).read_bytes() for name in ("out.o", "out.d")}
    ended = threading.Event()
    seen: set[bytes] = set()

    def read() -> None:
        while not ended.is_set():
            seen.update((lab.root / name).read_bytes() for name in ("out.o", "out.d"))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(16):
            assert lab.hipcache(*lab.words(*flags, source=f"{number % 2 + 1}.hip")).status == 0
    finally:
        ended.set()
        reader.join()
    assert seen == whole


@pytest.mark.archs(2)
@only_15
def test_who_waits_for_a_unit_makes_it_when_the_one_that_made_it_is_killed(lab: Lab) -> None:
    hook = f"if mkdir {lab.root}/first 2>/dev/null; then sleep 60; fi"
    lab = with_changes(lab, compiler=str(watched_compiler(lab.root / "compiler", lab.version, hook)))
    words = [*LAUNCHER, *lab.words("--offload-arch=gfx906")]
    first = subprocess.Popen(words, cwd=lab.root, env=lab.environ, start_new_session=True)
    try:
        while not (lab.root / "first").exists():
            time.sleep(0.05)
        second = subprocess.Popen([*words[:-1], "two.o"], cwd=lab.root, env=lab.environ, start_new_session=True)
        time.sleep(0.5)
        assert second.poll() is None, "it waits"
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
    assert second.wait(timeout=100) == 0
    plain = lab.run([str(LLVM[lab.version] / "bin" / "clang++"), *lab.words("--offload-arch=gfx906")[1:]])
    assert plain.status == 0
    assert (lab.root / "two.o").read_bytes() == (lab.root / "out.o").read_bytes()


@pytest.mark.files
@only_15
def test_a_store_with_room_for_little_is_held_to_its_size_and_gives_right_objects(lab: Lab) -> None:
    size = 150_000
    env = {"HIPCACHE_MAX_SIZE": str(size)}
    outcomes = []
    for _ in range(2):
        for number in range(4):
            lab.write("k.hip", kernel(str(number)))
            outcomes.append(lab.compile(env=env).outcome)
            kept = [path for name in ("actions", "blobs") for path in (lab.store / "v2" / name).glob("*")]
            assert sum(path.stat().st_size for path in kept) <= size
            assert lab.compile(env=env).outcome == HIT
    assert MISS in outcomes[4:], "nothing was driven out: the test shows nothing"


def most_at_once(log: Path) -> int:
    running = most = 0
    for line in log.read_text().splitlines():
        running += 1 if line == "start" else -1
        most = max(most, running)
    return most


def logging_compiler(lab: Lab, tmp_path: Path) -> tuple[Lab, Path]:
    log = tmp_path / "passes.log"
    log.touch()
    real = LLVM[lab.version] / "bin" / "clang"
    hook = f'echo start >>{log}; sleep 0.05; {real} "$@"; status=$?; echo end >>{log}; exit $status'
    return with_changes(lab, compiler=str(watched_compiler(tmp_path / "logging", lab.version, hook))), log


@only_15
def test_all_processes_of_a_user_run_as_many_compilers_at_once_as_there_are_cores(lab: Lab, tmp_path: Path) -> None:
    lab, log = logging_compiler(lab, tmp_path)
    for number in range(6):
        lab.write(f"{number}.hip", kernel(str(number)))
    with ThreadPoolExecutor(6) as pool:
        done = pool.map(lambda n: lab.hipcache(*lab.words(source=f"{n}.hip", output=f"{n}.o")).status, range(6))
        assert set(done) == {0}
    assert 1 <= most_at_once(log) <= len(os.sched_getaffinity(0))


MAKEFILE = """\
all: $(foreach n,0 1 2 3 4 5,$(n).o)
%.o: %.hip
\t{mark}{launcher} {words} -c $< -o $@
"""


@pytest.mark.archs(2)
@only_15
@pytest.mark.parametrize("mark", ["+", ""], ids=["jobserver", "closed-jobserver"])
def test_makes_jobs_are_not_exceeded_and_all_are_given_back(lab: Lab, tmp_path: Path, mark: str) -> None:
    lab, log = logging_compiler(lab, tmp_path)
    for number in range(6):
        lab.write(f"{number}.hip", kernel(str(number)))
    words = [lab.compiler, *ARCHS, "--offload-arch=gfx1030", *BARE, CUID]
    lab.write("Makefile", MAKEFILE.format(mark=mark, launcher=" ".join(LAUNCHER), words=" ".join(words)))
    ended = lab.run(["make", "-j3"])
    assert (ended.status, ended.err) == (0, b"")
    if mark:
        assert 1 <= most_at_once(log) <= 3


@only_15
def test_open_files_with_the_numbers_of_a_jobserver_that_is_gone_are_left_alone(lab: Lab) -> None:
    data = lab.write("data", "precious")
    command = f"exec 8<{data} 9>>{data}; exec {' '.join([*LAUNCHER, *lab.words()])}"
    ended = lab.run(["bash", "-c", command], env={"MAKEFLAGS": " -j3 --jobserver-auth=8,9"})
    assert ended.status == 0
    assert data.read_text() == "precious"
