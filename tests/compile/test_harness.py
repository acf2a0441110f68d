"""What tests rely on: waits that end, children with the usual signals, results of plain clang that are used again."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from bound import bounded
from golden import Golden, Tree
from golden_of_all import GoldenOfAll, Question, digest_of
from hip import HIT, LAUNCHER, Lab, only_19, replace, rewrite


def test_a_wait_without_end_fails_and_leaves_no_process(tmp_path: Path) -> None:
    waits = f"sh -c 'sleep 1000; true' & echo $! > {tmp_path}/pid; wait"
    with pytest.raises(pytest.fail.Exception, match="longer than"), bounded(0.5):
        subprocess.run(["sh", "-c", waits], check=False)
    left = Path("/proc") / (tmp_path / "pid").read_text().strip() / "stat"
    deadline = time.monotonic() + 60
    while left.exists() and left.read_text().rpartition(")")[2].split()[0] != "Z" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left.exists() or left.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_background_jobs_tests_begin_with_the_usual_signals() -> None:
    child = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    suite = f"import bound, subprocess, sys; bound.usual_signals(); subprocess.run([sys.executable, '-c', {child!r}])"
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    words = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-c", suite]
    assert subprocess.run(words, env=env, capture_output=True, check=False).stdout == b"True\n"


CHANGES: dict[str, Callable[[Path], object]] = {
    "content, with its size and time": lambda top: rewrite(top / "source", "two"),
    "another file of its size and time": lambda top: replace(top / "source", b"one"),
    "a file appears": lambda top: (top / "new").touch(),
    "a file goes": lambda top: (top / "source").unlink(),
    "a link leads elsewhere": lambda top: ((top / "link").unlink(), (top / "link").symlink_to("sub")),
    "a directory appears": lambda top: (top / "sub/more").mkdir(),
    "a mode": lambda top: (top / "source").chmod(0o600),
    "a time": lambda top: os.utime(top / "source", (1, 1)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_result_is_used_again_only_for_the_same_tree(tmp_path: Path, change: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "source").write_text("one")
    (tmp_path / "link").symlink_to("source")
    results, runs = Golden(audited_one_in=1 << 30), itertools.count()

    def get(command: str = "clang", cwd: Path = tmp_path, **environ: str) -> int:
        return results.get(lambda: next(runs), [command], cwd, environ, Tree.of(tmp_path, [tmp_path / "out.o"]))

    assert (get(), get()) == (0, 0)
    (tmp_path / "out.o").write_text("made")
    assert get() == 0
    time.sleep(0.02)  # the tick of the clock by which files are stamped: a compile takes longer
    CHANGES[change](tmp_path)
    assert (get(), get()) == (1, 1)
    assert (get("gcc"), get(cwd=tmp_path / "sub"), get(LANG="C")) == (2, 3, 4)


@pytest.mark.parametrize("asks", ["__TIME__", "__DATE__", "__TIMESTAMP__"])
def test_no_result_is_used_again_where_the_time_counts(tmp_path: Path, asks: str) -> None:
    (tmp_path / "source").write_text(f"const char* when = {asks};")
    results, runs = Golden(audited_one_in=1 << 30), itertools.count()
    assert [results.get(lambda: next(runs), ["clang"], tmp_path, {}, Tree.of(tmp_path, [])) for _ in range(2)] == [0, 1]


def test_an_audit_finds_a_result_that_is_another_one_by_now(tmp_path: Path) -> None:
    results, runs = Golden(audited_one_in=1), itertools.count()
    tree = Tree.of(tmp_path, [])
    assert results.get(lambda: next(runs), ["clang"], tmp_path, {}, tree) == 0
    with pytest.raises(AssertionError, match="differs from itself"):
        results.get(lambda: next(runs), ["clang"], tmp_path, {}, tree)


def asked_of_all(session: Path, top: Path, audited_one_in: int = 1 << 30) -> Callable[..., bytes]:
    """Plain clang in `top`, which answers with its number of that run; with the results of all tests of `session`."""
    top.mkdir(exist_ok=True)
    (top / "source").write_text("one")
    runs = itertools.count()

    def get(command: str = "clang", said: str = "", writes: str = "", **environ: str) -> bytes:
        def run() -> bytes:
            if writes:
                (top / writes).touch()
            return f"{next(runs)} {said}".encode()

        results = Golden(of_all=GoldenOfAll(session, top, audited_one_in=audited_one_in))
        return results.get(run, [command], top, environ, Tree.of(top, []), lambda: Tree.of(top, []))

    return get


def test_the_result_of_one_test_is_that_of_another_one_with_the_same_files(tmp_path: Path) -> None:
    one, other = asked_of_all(tmp_path, tmp_path / "one"), asked_of_all(tmp_path, tmp_path / "other")
    assert (one(), other()) == (b"0 ", b"0 ")
    assert one(f"-o{tmp_path}/one/out.o", HOME=f"{tmp_path}/one/home") == b"1 "
    assert other(f"-o{tmp_path}/other/out.o", HOME=f"{tmp_path}/other/home") == b"1 ", "its own directory is no other"
    assert [other("gcc"), other(LANG="C")] == [b"0 ", b"1 "]
    (tmp_path / "other/source").write_text("two")
    assert other() == b"2 "


@pytest.mark.parametrize(
    "asked",
    [
        lambda get, session: get(f"-I{session}/headers"),
        lambda get, session: get("-I../../headers"),
        lambda get, session: get(TMPDIR=f"{session}/one/disk"),
        lambda get, session: get(said=f"in {session}/one"),
        lambda get, session: get(writes="another file"),
    ],
    ids=["another directory", "one above", "a disk", "it says where it is", "it writes something else"],
)
def test_no_result_is_shared_that_may_be_of_its_place(
    tmp_path: Path, asked: Callable[[Callable[..., bytes], Path], bytes]
) -> None:
    get = asked_of_all(tmp_path, tmp_path / "one")
    assert asked(get, tmp_path).startswith(b"0")
    (tmp_path / "one/another file").unlink(missing_ok=True)
    assert asked(get, tmp_path).startswith(b"1")


def test_an_audit_finds_a_shared_result_that_is_another_one_by_now(tmp_path: Path) -> None:
    get = asked_of_all(tmp_path, tmp_path / "one", audited_one_in=1)
    assert get() == b"0 "
    with pytest.raises(AssertionError, match="the shared key"):
        get()


@pytest.mark.parametrize(
    ("guessed", "audited_one_in", "made"),
    [(b"same", 1 << 30, b"same"), (b"another", 1 << 30, b"clang's"), (b"same", 1, b"clang's")],
    ids=["it has the digest", "it has another", "an audit"],
)
def test_clang_makes_what_has_not_the_digest_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guessed: bytes, audited_one_in: int, made: bytes
) -> None:
    top = tmp_path / "one"
    top.mkdir()
    asked = Question(["clang"], top, {}, lambda: Tree.of(top, []))
    known = {asked.key(top, tmp_path)[:12]: [digest_of(b"same", top)]}
    monkeypatch.setattr("golden_of_all.known_digests", lambda: known)
    of_all = GoldenOfAll(tmp_path, top, audited_one_in=audited_one_in)
    assert of_all.get(lambda: b"clang's", asked, lambda: guessed) == made


@only_19
def test_a_warm_compile_runs_plain_clang_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab._golden = Golden(audited_one_in=1 << 30)
    ran: list[str] = []
    run = lab.run
    monkeypatch.setattr(lab, "run", lambda argv, **more: (ran.append(str(argv[0])), run(argv, **more))[1])
    assert lab.warm().outcome == HIT
    assert [word for word in ran if word == lab.compiler] == [lab.compiler]
    assert len(ran) == 3


def test_the_hipcache_that_is_tested_is_the_native_one() -> None:
    """A native build that fails makes the installation fall back to a script, with which most tests would pass."""
    for program in (Path(sys.executable).with_name("hipcache"), Path(LAUNCHER[0])):
        begin = program.read_bytes()[:4]
        assert begin == b"\x7fELF", f"'{program}' is no native program: 'make setup' with a C compiler builds one"
