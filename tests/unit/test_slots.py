"""No more compilers run than there are slots, whoever asks."""

from __future__ import annotations

import contextlib
import os
import select
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hipcache.base import locks
from hipcache.base.paths import runtime_directory
from hipcache.processes import slots
from hipcache.processes.slots import SharedSlots
from most_at_once import most_at_once

# The user's slots


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_threads_never_hold_more_slots_than_there_are(limit: int, tmp_path: Path) -> None:
    assert most_at_once(SharedSlots(limit, str(tmp_path))) <= limit


def test_two_that_share_a_directory_share_the_slots(tmp_path: Path) -> None:
    one, other = SharedSlots(1, str(tmp_path)), SharedSlots(1, str(tmp_path))
    entered = threading.Event()

    def second() -> None:
        with other.hold():
            entered.set()

    thread = threading.Thread(target=second)
    with one.hold():
        thread.start()
        assert not entered.wait(0.1)
    thread.join(60)
    assert entered.is_set()


# Each process holds a slot while its file is there, and counts the files that it sees.
WORKER = """\
import os, sys, time
from pathlib import Path
from hipcache.processes.slots import SharedSlots

slots, busy, most = SharedSlots(2, sys.argv[1]), Path(sys.argv[2]), 0
for _ in range(12):
    with slots.hold():
        mark = busy / str(os.getpid())
        mark.touch()
        most = max(most, len(list(busy.iterdir())))
        time.sleep(0.002)
        mark.unlink()
print(most)
"""


def test_processes_never_hold_more_slots_than_there_are(tmp_path: Path) -> None:
    (tmp_path / "busy").mkdir()
    argv = [sys.executable, "-c", WORKER, str(tmp_path), str(tmp_path / "busy")]
    workers = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    counts = [int(worker.communicate()[0]) for worker in workers]
    assert max(counts) <= 2


def test_a_holder_that_is_killed_gives_its_slot_back(tmp_path: Path) -> None:
    text = (
        "import sys, time\nfrom hipcache.processes.slots import SharedSlots\n"
        "with SharedSlots(1, sys.argv[1]).hold():\n    print('held', flush=True)\n    time.sleep(1000)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", text, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.communicate()
    with SharedSlots(1, str(tmp_path)).hold():
        pass


# Those who hold slots, and are stopped


STOPPED = """\
import os, signal, sys
from hipcache.processes.slots import SharedSlots

with SharedSlots(1, sys.argv[1]).hold():
    print("held", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.fixture
def stop(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """Let one more process take the slot, and stop."""
    stopped: list[subprocess.Popen[str]] = []

    def one() -> None:
        process = subprocess.Popen([sys.executable, "-c", STOPPED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        stopped.append(process)
        assert process.stdout
        assert select.select([process.stdout], [], [], 60)[0], "it waits for the slot"
        assert process.stdout.readline() == "held\n"
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)

    yield one
    for process in stopped:
        process.kill()
        process.communicate()


class Told(Exception):
    pass


def is_had(those: SharedSlots) -> bool:
    """Without a wait for ever."""
    end = time.monotonic() + 30

    def check() -> None:
        if time.monotonic() > end:
            raise Told

    with contextlib.suppress(Told), those.hold(check):
        return True
    return False


@pytest.mark.parametrize("count", [1, 2, 3])
def test_those_who_are_stopped_hold_up_nobody(count: int, tmp_path: Path, stop: Callable[[], None]) -> None:
    """Ctrl-Z in one terminal after the other. Behind them all one compiler runs at a time."""
    for _ in range(count):
        stop()
    assert is_had(SharedSlots(1, str(tmp_path)))
    with SharedSlots(1, str(tmp_path)).attempt() or pytest.fail("who does not wait waits for ever for another one"):
        assert SharedSlots(1, str(tmp_path)).attempt() is None


def test_there_is_an_end_to_substitutes(
    tmp_path: Path, stop: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "_SUBSTITUTES", 1)
    for _ in range(2):
        stop()
    with SharedSlots(1, str(tmp_path)).hold(), SharedSlots(1, str(tmp_path)).hold():
        pass


@pytest.mark.parametrize("row", ["another process", "no process", "nothing"])
def test_who_is_not_confirmed_by_the_kernel_holds_up_nobody_for_long(
    row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a stopped compile in another container, whose number is none here, or another process's."""
    monkeypatch.setattr(slots, "_CHECK", 0.02)  # 1 s
    monkeypatch.setattr(locks, "UNCONFIRMED", 0.1)  # 10 s
    fd = os.open(tmp_path / "slots-1", os.O_RDWR | os.O_CREAT, 0o600)
    for byte in (0, 1):
        assert locks.try_lock(fd, byte)
        if row != "nothing":
            os.pwrite(fd, struct.pack("<Q", os.getppid() if row == "another process" else 1 << 30), 8 * byte)
    assert is_had(SharedSlots(1, str(tmp_path)))
    os.close(fd)


def test_who_is_confirmed_by_the_kernel_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "_CHECK", 0.02)  # 1 s
    monkeypatch.setattr(locks, "UNCONFIRMED", 0.1)  # 10 s
    other = SharedSlots(1, str(tmp_path))
    with SharedSlots(1, str(tmp_path)).hold():
        for _ in range(50):
            assert other.attempt() is None
            time.sleep(0.01)


def test_without_a_place_for_the_file_each_process_counts_for_itself(tmp_path: Path) -> None:
    assert most_at_once(SharedSlots(2, str(tmp_path / "gone"))) <= 2


def test_without_a_directory_nothing_is_written_into_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert most_at_once(SharedSlots(2, "")) <= 2
    assert list(tmp_path.iterdir()) == []


def test_a_slot_is_given_back_after_an_error(tmp_path: Path) -> None:
    shared = SharedSlots(1, str(tmp_path))
    for _ in range(2):
        with pytest.raises(KeyError), shared.hold():
            raise KeyError
    with shared.hold():
        pass


# The place for the slots


def test_the_runtime_directory_is_private(tmp_path: Path) -> None:
    path = Path(runtime_directory({"XDG_RUNTIME_DIR": str(tmp_path)}))
    assert path.parent == tmp_path
    assert path.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give directories away")
def test_the_runtime_directory_of_another_user_is_left_alone(tmp_path: Path) -> None:
    """`sudo hipcache` left a directory of root's there."""
    os.chown(tmp_path, 4711, -1)
    assert not runtime_directory({"XDG_RUNTIME_DIR": str(tmp_path)}).startswith(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_runtime_directory_that_cannot_be_made_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert runtime_directory({"XDG_RUNTIME_DIR": str(tmp_path / "file")}) != str(tmp_path / "file" / "hipcache")


def test_who_is_told_to_end_while_it_waits_takes_no_slot(tmp_path: Path) -> None:
    def check() -> None:
        raise Told

    shared = SharedSlots(1, str(tmp_path))
    with shared.hold(), pytest.raises(Told), SharedSlots(1, str(tmp_path)).hold(check):
        pass
    with shared.hold(check):  # free at once: nobody was waited for
        pass
