"""Processes: what they leave behind, and that they end when they are told to."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hipcache.processes.runner import Completed, Killed, SubprocessRunner

FOREVER = "while :; do sleep 0.05; done"


def waited_for(condition: Callable[[], bool]) -> bool:
    """Does it come true? A machine that is busy gets a minute."""
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def alive(pid: int) -> bool:
    """Does the process run? One that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Background:
    """A process that runs until it is ended, started through `runner` in a thread."""

    def __init__(self, runner: SubprocessRunner, directory: Path) -> None:
        self._file = directory / f"pid-{id(self)}"
        self.ended: Completed | BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(runner,), daemon=True)
        self._thread.start()
        assert waited_for(lambda: self._file.exists() and self._file.read_text().endswith("\n"))
        self.pid = int(self._file.read_text())

    def _run(self, runner: SubprocessRunner) -> None:
        try:
            self.ended = runner.run(["sh", "-c", f"echo $$ > {self._file}; {FOREVER}"])
        except Killed as killed:
            self.ended = killed

    def join(self) -> Completed | BaseException | None:
        self._thread.join(60)
        return self.ended


@pytest.mark.parametrize("observed", [False, True])
def test_the_time_of_its_work_is_that_of_the_processor(tmp_path: Path, observed: bool) -> None:
    def ran(program: str) -> Completed:
        argv, env = [sys.executable, "-c", program], dict(os.environ)
        runner = SubprocessRunner()
        return runner.trace(argv, cwd=tmp_path, env=env).ended if observed else runner.run(argv, cwd=tmp_path, env=env)

    busy = "import os, subprocess, sys\nwhile sum(os.times()[:2]) < 0.4: pass\n"
    waits = ran("import time; time.sleep(2)")
    works = ran(busy)
    through = ran(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])")
    assert waits.seconds >= 2
    assert waits.work < 1.5
    assert works.work >= 0.4
    assert through.work >= 0.4


def test_without_a_time_of_the_processor_it_is_the_wall_clocks() -> None:
    assert Completed(0, b"", b"", 3.0).work == 3.0
    assert Completed(0, b"", b"", 3.0, 0.0).work == 0.0


def test_output_and_status_come_back() -> None:
    done = SubprocessRunner().run(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (done.status, done.stdout, done.stderr) == (3, b"out\n", b"err\n")


def test_a_signal_is_a_negative_status() -> None:
    assert SubprocessRunner().run(["sh", "-c", "kill -TERM $$"]).status == -15


def test_standard_input_is_closed() -> None:
    assert SubprocessRunner().run(["cat"]).stdout == b""


def test_a_process_gets_its_directory_and_its_environment_alone(tmp_path: Path) -> None:
    done = SubprocessRunner().run(["/bin/sh", "-c", "pwd; env"], cwd=tmp_path, env={"ONLY": "1"})
    assert done.stdout.splitlines()[0] == os.fsencode(tmp_path)
    assert b"ONLY=1" in done.stdout
    assert b"HOME=" not in done.stdout


def test_much_output_on_both_sides_does_not_block() -> None:
    done = SubprocessRunner().run(
        [sys.executable, "-c", "import sys\nfor f in (sys.stdout, sys.stderr): f.write('x' * 300000)"]
    )
    assert (len(done.stdout), len(done.stderr)) == (300_000, 300_000)


@pytest.mark.parametrize("argv", [["/gone"], ["/"], ["/etc/passwd"]])
def test_a_program_that_cannot_be_started_is_an_oserror(argv: list[str]) -> None:
    with pytest.raises(OSError, match=argv[0]):
        SubprocessRunner().run(argv)


def test_kill_ends_what_runs_and_starts_no_more(tmp_path: Path) -> None:
    runner = SubprocessRunner()
    processes = [Background(runner, tmp_path) for _ in range(3)]
    runner.kill()
    assert all(isinstance(process.join(), Killed) for process in processes)
    assert not any(alive(process.pid) for process in processes)
    with pytest.raises(Killed):
        runner.run(["true"])


def test_kill_of_a_group_leaves_the_others(tmp_path: Path) -> None:
    runner = SubprocessRunner()
    one, other = runner.group(), runner.group()
    in_one, in_other = Background(one, tmp_path), Background(other, tmp_path)
    one.kill()
    assert isinstance(in_one.join(), Killed)
    assert alive(in_other.pid)
    assert runner.run(["true"]).status == 0
    assert other.run(["true"]).status == 0
    other.kill()
    in_other.join()


def test_kill_ends_the_processes_of_all_groups(tmp_path: Path) -> None:
    runner = SubprocessRunner()
    group = runner.group()
    nested = group.group()
    processes = [Background(group, tmp_path), Background(nested, tmp_path)]
    runner.kill()
    assert all(isinstance(process.join(), Killed) for process in processes)
    for late in (group, nested, runner.group()):
        with pytest.raises(Killed):
            late.run(["true"])


def test_kill_twice_is_no_error() -> None:
    runner = SubprocessRunner()
    runner.kill()
    runner.kill()


# In a process of its own, since a signal handler belongs to the main thread.
INTERRUPTED = """\
import os, signal, sys
from hipcache.processes.runner import SubprocessRunner

class Interrupted(BaseException): pass

def interrupt(number, frame):
    raise Interrupted

signal.signal(signal.SIGTERM, interrupt)
runner = SubprocessRunner()
try:
    # More than a pipe holds: the signal comes when the runner is reading.
    runner.group().run(["sh", "-c", "echo $$ > pid; head -c 300000 /dev/zero; kill -TERM $PPID; exec sleep 1000"])
except Interrupted:
    runner.kill()
    print("interrupted")
"""


def test_a_signal_handler_that_unwinds_leaves_no_process_behind(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "interrupted\n"
    pid = int((tmp_path / "pid").read_text())
    assert waited_for(lambda: not alive(pid))


STARTING = INTERRUPTED.replace(
    "class Interrupted(BaseException): pass",
    """
from hipcache.processes import runner as module

class Interrupted(BaseException): pass

class Starting(module._Process):
    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):  # a handler that is not deferred runs here, before anybody knows the process
            pass

module._Process = Starting
""",
).replace("head -c 300000 /dev/zero; kill -TERM $PPID; ", "")


def test_a_signal_while_a_process_is_being_started_leaves_none_behind(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", STARTING], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "interrupted\n"
    assert not (tmp_path / "pid").exists() or waited_for(lambda: not alive(int((tmp_path / "pid").read_text() or 0)))
    left = [path for path in Path("/proc").glob("[0-9]*/cwd") if _is(path, tmp_path)]
    assert waited_for(lambda: not any(_is(path, tmp_path) for path in left))


def _is(path: Path, directory: Path) -> bool:
    try:
        return path.resolve() == directory
    except OSError:
        return False


def test_a_new_process_has_no_signal_blocked(tmp_path: Path) -> None:
    done = SubprocessRunner().run(["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"])
    plain = subprocess.run(["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"], capture_output=True, check=True)
    assert done.stdout == plain.stdout
