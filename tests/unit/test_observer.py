"""The native observer lists what a process hands to the kernel, and never makes it end otherwise."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hipcache.base import native
from hipcache.inputs import observing
from hipcache.inputs.observing import Observed
from hipcache.processes.runner import ForkServers, Killed, SubprocessRunner, Traced

SOURCE = Path(__file__).parents[1] / "observed_program.c"
# One that is loaded once (native/observer/fork_server.c).
FORKED = "program-of-a-fork-server"


@pytest.fixture(scope="module", params=["static", "dynamic", "forked"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("program")
    kind = ["-static"] if request.param == "static" else []
    path = place / (FORKED if request.param == "forked" else "program")
    subprocess.run(["cc", *kind, "-pthread", "-o", path, SOURCE], check=True)
    return str(path)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "there").write_text("")
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "below").write_text("")
    (tmp_path / "link").symlink_to("there")
    return tmp_path


def runner_of(program: str) -> SubprocessRunner:
    return SubprocessRunner(ForkServers(lambda _: True) if program.endswith(FORKED) else None)


def trace(program: str, what: str, place: Path) -> Traced:
    return runner_of(program).trace([program, what], cwd=place, env={"PATH": "/usr/bin:/bin"})


def seen(traced: Traced) -> Observed:
    assert traced.observed is not None, traced.why
    return observing.parse(traced.observed, "/nowhere")


def test_each_call_with_a_path_is_listed(program: str, place: Path) -> None:
    traced = trace(program, "all", place)
    assert (traced.ended.status, traced.ended.stdout, traced.ended.stderr) == (7, b"out\n", b"err")
    found = seen(traced)
    assert {"there", f"{place}/directory/below"} <= found.opened
    assert {"gone", "asked", "dangling"} <= found.absent
    assert "directory" in found.directories
    assert "link" in found.links
    assert "written" not in found.opened


def test_a_link_that_leads_nowhere_is_told(program: str, place: Path) -> None:
    (place / "dangling").symlink_to("nowhere")
    assert seen(trace(program, "all", place)).unclear[0] == "dangling"


def test_children_and_what_they_become_are_observed_wherever_they_are(program: str, place: Path) -> None:
    found = seen(trace(program, "child", place))
    there = f"{place}/directory"
    assert {f"{there}/by_child", f"{there}/opened_by_child", f"{there}/after_exec"} <= found.absent
    assert "opened_by_child" not in found.absent


def test_many_threads_are_observed(program: str, place: Path) -> None:
    found = seen(trace(program, "threads", place))
    assert {f"thread{number}/{i}" for number in range(100) for i in range(20)} <= found.absent


def test_a_path_that_is_longer_than_any_is_left_out(program: str, place: Path) -> None:
    found = seen(trace(program, "long", place))
    assert "after" in found.absent
    assert max(map(len, found.absent)) < 4096


def test_a_crash_is_told_as_it_is(program: str, place: Path) -> None:
    assert trace(program, "crash", place).ended.status == -signal.SIGSEGV


def test_a_call_that_no_list_stands_for_leaves_none(program: str, place: Path) -> None:
    traced = trace(program, "chroot", place)
    assert traced.ended.status == 0
    assert traced.observed is None
    assert "system call" in traced.why


@pytest.mark.parametrize(
    ("what", "told"), [("socket", ["n?"]), ("child", ["p?", "xf{}"]), ("vfork", ["p?"]), ("threads", []), ("all", [])]
)
def test_programs_processes_and_sockets_are_told(program: str, place: Path, what: str, told: list[str]) -> None:
    traced = trace(program, what, place)
    assert traced.observed is not None, traced.why
    rows = [os.fsdecode(row) for row in traced.observed.split(b"\0") if row[:1] in (b"x", b"p", b"n")]
    assert rows == [f"xf{program}", *(one.format(program) for one in told)]
    assert program in seen(traced).opened


def test_where_a_kernel_cannot_let_a_call_go_on_it_runs_without(
    program: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux before 5.5, where the start fails: a fake."""

    old = SimpleNamespace(
        _name=str(native.PATH),
        hipcache_observing=lambda: 1,
        hipcache_observing_free=lambda _: None,
        hipcache_fork_server=lambda *_: 1,
        hipcache_fork_server_free=lambda _: None,
        hipcache_observe=lambda *_: -errno.ENOSYS,
        hipcache_free=lambda _: None,
    )
    monkeypatch.setattr(native, "load", lambda: old)
    traced = trace(program, "all", place)
    assert (traced.ended.status, traced.ended.stdout, traced.observed) == (7, b"out\n", None)
    assert "cannot be started so" in traced.why


def test_what_outlives_the_process_is_not_waited_for(program: str, place: Path) -> None:
    begun = time.monotonic()
    traced = trace(program, "leave", place)
    assert time.monotonic() - begun < 90  # it sleeps for 100
    assert "left processes behind" in traced.why
    assert traced.ended.status == 0


def test_a_program_that_is_not_there_is_told_as_without_an_observer(place: Path) -> None:
    with pytest.raises(FileNotFoundError):
        trace("/nowhere/clang", "", place)


def _wait(place: Path) -> int:
    for _ in range(6000):
        if (place / "running").exists():
            return int((place / "running").read_text())
        time.sleep(0.01)
    raise AssertionError("it does not start")


def _is_gone(pid: int) -> bool:
    for _ in range(6000):
        try:
            if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def test_kill_ends_it_from_another_thread(program: str, place: Path) -> None:
    runner, ended = runner_of(program), []

    def run() -> None:
        try:
            runner.group().trace([program, "sleep"], cwd=place, env={})
        except Killed as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    pid = _wait(place)
    runner.kill()
    thread.join(60)
    assert ended
    assert _is_gone(pid)


def test_a_handler_that_raises_is_heard_while_it_runs(program: str, place: Path) -> None:
    class Heard(Exception):
        pass

    def hear(*_: object) -> None:
        raise Heard

    def send() -> None:
        started.append(_wait(place))
        os.kill(os.getpid(), signal.SIGALRM)

    runner, started = runner_of(program), list[int]()
    before, thread = signal.signal(signal.SIGALRM, hear), threading.Thread(target=send)
    try:
        thread.start()
        with pytest.raises(Heard):
            runner.trace([program, "sleep"], cwd=place, env={})
    finally:
        thread.join(60)
        signal.signal(signal.SIGALRM, before)
    runner.kill()
    assert _is_gone(started[0])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_its_observer(program: str, place: Path, number: int) -> None:
    code = f"""
import sys
from pathlib import Path
sys.path[:0] = {[path for path in sys.path if path]!r}
{_runner(program)}
runner.trace([{program!r}, "sleep"], cwd=Path({str(place)!r}), env={{}})
"""
    observer = subprocess.Popen([sys.executable, "-c", code])
    pid = _wait(place)
    observer.send_signal(number)
    assert observer.wait(60) == -number
    assert _is_gone(pid)


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize(
    "outer", [["strace", "-f", "-o", "/dev/null"], ["strace", "-f", "--seccomp-bpf", "-o", "/dev/null"]]
)
def test_under_another_tracer_it_is_observed_all_the_same(program: str, place: Path, outer: list[str]) -> None:
    found = _in_a_process(program, place, outer)
    assert found == "True \n"


def test_under_another_observer_it_runs_without(program: str, place: Path) -> None:
    code = _code(program, place)
    traced = SubprocessRunner().trace([sys.executable, "-c", code], cwd=place, env={"PATH": "/usr/bin:/bin"})
    assert traced.ended.stdout.startswith(b"False the kernel"), traced
    assert f"{place}/asked" in seen(traced).absent


def _runner(program: str) -> str:
    servers = "ForkServers(lambda _: True)" if program.endswith(FORKED) else ""
    return f"""
from hipcache.processes.runner import ForkServers, SubprocessRunner
runner = SubprocessRunner({servers})
"""


def _code(program: str, place: Path) -> str:
    return f"""
import sys
from pathlib import Path
sys.path[:0] = {[path for path in sys.path if path]!r}
{_runner(program)}
traced = runner.trace([{program!r}, "all"], cwd=Path({str(place)!r}), env={{}})
assert (traced.ended.status, traced.ended.stdout) == (7, b"out\\n"), traced
print(traced.observed is not None and b"asked" in traced.observed, traced.why)
"""


def _in_a_process(program: str, place: Path, before: list[str]) -> str:
    done = subprocess.run(
        [*before, sys.executable, "-c", _code(program, place)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_with_few_open_files_it_runs_without(program: str, place: Path) -> None:
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))\n" + _code(program, place).replace(
        "traced = ", "import os\nheld = [os.open('/dev/null', 0) for _ in range(3)]\ntraced = "
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "Too many open files" in done.stderr or done.stdout.startswith("False"), (done.stdout, done.stderr)


def test_a_name_that_is_not_there_counts_also_among_languages_and_time_zones() -> None:
    """`__has_include` may look for it; what libc opens there is of no compile's."""
    zones = "/usr/share/zoneinfo"
    listed = f"s-{zones}/new.h\0rf{zones}/UTC\0".encode()
    found = observing.parse(listed, "/nowhere")
    assert (found.absent, found.opened) == ({f"{zones}/new.h"}, set())
