"""Limits of the process, signals at its begin, and temporary files that cannot be made: it ends as plain clang does,
without a traceback."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hipcache
import pytest
from hip import ENGINE_ALONE, FULL, HIT, LAUNCHER, PASSED_THROUGH, Ended, Lab, apart, let_others_in, only_19

_MIB = 1 << 20
_NOBODY = 54322

LIMITS = [
    *[(resource.RLIMIT_STACK, size << 10) for size in (96, 128)],
    *[(resource.RLIMIT_NOFILE, count) for count in (4, 5, 7, 40)],
    *[(resource.RLIMIT_FSIZE, size) for size in (0, 4096)],
    *[(resource.RLIMIT_AS, size * _MIB) for size in (100, 320)],
]


def _limited(lab: Lab, words: Sequence[str], limit: int, value: int, user: int = 0) -> Ended:
    def lower() -> None:
        resource.setrlimit(limit, (value, value))
        if user:
            os.setgid(user)
            os.setuid(user)

    out, err = lab.root / "stdout", lab.root / "stderr"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        done = subprocess.run(
            words,
            cwd=lab.root,
            env=lab.environ,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            preexec_fn=lower,
            timeout=60,
            check=False,
        )
    return Ended(done.returncode, out.read_bytes(), err.read_bytes())


@pytest.mark.parametrize(("limit", "value"), LIMITS)
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@only_19
def test_under_a_limit_it_ends_as_the_compiler_does(lab: Lab, limit: int, value: int, warm: bool) -> None:
    words = lab.words()
    made = lab.root / "out.o"
    plain = _limited(lab, words, limit, value)
    right = (lab.warm() if warm else lab.compile(env={"HIPCACHE_DISABLE": "1"})).object
    made.unlink(missing_ok=True)
    cached = _limited(lab, [*LAUNCHER, *words], limit, value)
    assert b"Traceback" not in cached.err
    assert b"hipcache" not in cached.err
    # A hit needs less than a compile.
    assert cached.status == plain.status or (warm and cached.status == 0)
    assert made.exists() == (cached.status == 0)
    assert cached.status or made.read_bytes() == right


@pytest.mark.parametrize("log", ["statistics", "user's"])
@only_19
def test_a_log_that_may_not_grow_ends_no_compile(lab: Lab, log: str) -> None:
    lab.write("plain.cpp", "int x;\n")
    lab.warm()
    path = lab.store / "v2/statistics/log" if log == "statistics" else lab.root / "log"
    path.touch()
    path.write_bytes(b"\n".join([path.read_bytes(), *[b"x" * 99] * 200]))
    lab.environ["HIPCACHE_LOG"] = str(lab.root / "log") if log == "user's" else ""
    for words in lab.words(), [lab.compiler, "-c", "plain.cpp", "-o", "out.o"], lab.words("-std=c++71"):
        expected = _limited(lab, words, resource.RLIMIT_FSIZE, 8192)
        (lab.root / "out.o").unlink(missing_ok=True)
        cached = _limited(lab, [*LAUNCHER, *words], resource.RLIMIT_FSIZE, 8192)
        assert cached.status == expected.status, words
        assert (lab.root / "out.o").exists() == (expected.status == 0)


@only_19
@pytest.mark.parametrize("processes", [1, 4])
def test_where_no_process_can_be_started_it_ends_as_the_compiler_does(lab: Lab, processes: int) -> None:
    """For each user who is not root; a user's limit counts all of that one's processes, so this one has none but
    ours."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    let_others_in(lab.root)
    for path in (lab.root, lab.root.parent, lab.root.parent / "home", lab.root.parent / "run"):
        os.chown(path, _NOBODY, _NOBODY)
    words = lab.words()
    plain = _limited(lab, words, resource.RLIMIT_NPROC, processes, _NOBODY)
    (lab.root / "out.o").unlink(missing_ok=True)
    cached = _limited(lab, [*LAUNCHER, *words], resource.RLIMIT_NPROC, processes, _NOBODY)
    assert b"Traceback" not in cached.err
    assert cached.status == plain.status
    assert (lab.root / "out.o").exists() == (cached.status == 0)


@only_19
def test_without_proc_it_compiles_as_ever(lab: Lab) -> None:
    lab.warm()
    lab.write("other.hip", (lab.root / "k.hip").read_text())
    for source in ("k.hip", "other.hip"):
        ended = apart(lab, "mount -t tmpfs none /proc", [*LAUNCHER, *lab.words(source=source)])
        assert (ended.status, ended.err) == (0, b"")


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("variable", ["TMPDIR", "TMP", "TEMP"])
def test_without_a_directory_for_temporary_files_it_fails_as_clang_does(lab: Lab, variable: str, warm: bool) -> None:
    environ = {name: value for name, value in lab.environ.items() if name not in ("TMPDIR", "TMP", "TEMP", "TEMPDIR")}
    lab.environ.clear()
    lab.environ |= environ
    if warm:
        lab.warm()
    made = lab.compile(env={variable: str(lab.root / "absent")})
    assert (made.status != 0, made.counted.reason) == (True, "temporary_directory")
    assert made.outcome == PASSED_THROUGH
    assert lab.compile(env={variable: str(lab.root)}).status == 0


# Signals

STEPS = range(0, 200, 5 if FULL else 20)


IN_A_FINALISER = """
import os, signal, time
from hipcache.app import ending

class Finalised:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0)

ending.take_signals()
try:
    for _ in range(3):
        Finalised()
        time.sleep(10)
except ending.Interrupted as interrupted:
    print(interrupted.number)
ending.end_by_signals()
"""


def test_a_signal_in_a_finaliser_is_not_lost() -> None:
    ended = subprocess.run([sys.executable, "-c", IN_A_FINALISER], capture_output=True, timeout=60, check=True)
    assert (ended.stdout, ended.stderr) == (b"15\n", b"")


@only_19
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_in_the_first_moments_ends_it_without_a_traceback(lab: Lab, number: signal.Signals) -> None:
    lab.warm()

    def interrupted(job: tuple[int, bool]) -> None:
        milliseconds, warm = job
        place = lab.root / f"{number.name}-{milliseconds}-{warm}"
        place.mkdir()
        environ = {**lab.environ, "HIPCACHE_RECACHE": "0" if warm else "1"}
        words = lab.words(output=str(place / "out.o"))
        with (place / "err").open("wb") as err:
            process = subprocess.Popen(
                [*LAUNCHER, *words], cwd=lab.root, env=environ, stderr=err, stdin=subprocess.DEVNULL
            )
            time.sleep(milliseconds / 1000)
            process.send_signal(number)
            status = process.wait(timeout=60)
        assert status in (-number, 0), (place / "err").read_bytes()
        assert (place / "err").read_bytes() == b""
        assert status or (place / "out.o").exists()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(interrupted, [(step, warm) for step in STEPS for warm in (False, True)]))
    lab.count_anew()
    assert lab.compile().outcome == HIT


@only_19
def test_an_interrupted_verb_prints_no_traceback(lab: Lab) -> None:
    for milliseconds in range(0, 120, 10 if FULL else 30):
        process = subprocess.Popen(
            [LAUNCHER[0], "stats"], env=lab.environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        time.sleep(milliseconds / 1000)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[1] == b""
        assert process.returncode in (-signal.SIGINT, 130, 0)


def test_an_engine_that_cannot_start_for_want_of_files_hands_over_to_the_compiler(lab: Lab) -> None:
    ended = _limited(lab, [*ENGINE_ALONE, *lab.words()], resource.RLIMIT_NOFILE, 12)
    assert ended.status == 0
    assert b"Traceback" not in ended.err
    assert (Path(lab.root) / "out.o").exists()


@only_19
def test_a_limit_for_files_leaves_no_module_of_the_engine_cut(lab: Lab) -> None:
    """Python writes compiled modules, sees no short write, and could not start with such a one ever again."""
    place = lab.root / "own"
    place.mkdir()
    shutil.copy(LAUNCHER[0], place)
    package = Path(hipcache.__file__).parent
    shutil.copytree(package, place / "hipcache-package/hipcache", ignore=shutil.ignore_patterns("__pycache__"))
    engine = f"#!{sys.executable}\nimport sys\nsys.path.insert(0, '{place}/hipcache-package')\n"
    engine += "from hipcache.__main__ import main\nsys.exit(main())\n"
    (place / "hipcache-engine").write_text(engine)
    (place / "hipcache-engine").chmod(0o755)
    words = [str(place / "hipcache"), *lab.words()]
    _limited(lab, words, resource.RLIMIT_FSIZE, 4096)
    ended = _limited(lab, words, resource.RLIMIT_FSIZE, resource.RLIM_INFINITY)
    assert (ended.status, ended.err) == (0, b"")
    assert "internal" not in str(lab.stats()["passed_through"])
