"""No more compilers run than there are slots, whoever asks; a token of make's is always given back."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hipcache.processes.slots import Jobserver, SharedSlots, Slots, open_slots, runtime_directory


class Most:
    """Counts how many are inside at once."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self.now -= 1


def most_at_once(slots: Slots, threads: int = 8, rounds: int = 5) -> int:
    inside = Most()

    def work() -> None:
        for _ in range(rounds):
            with slots.hold(), inside:
                time.sleep(0.001)

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(work) for _ in range(threads)]:
            future.result()
    return inside.most


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


def test_without_a_place_for_the_file_each_process_counts_for_itself(tmp_path: Path) -> None:
    assert most_at_once(SharedSlots(2, str(tmp_path / "gone"))) <= 2


def test_without_a_directory_nothing_is_written_into_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert most_at_once(SharedSlots(2, "")) <= 2
    assert list(tmp_path.iterdir()) == []


def test_a_slot_is_given_back_after_an_error(tmp_path: Path) -> None:
    slots = SharedSlots(1, str(tmp_path))
    for _ in range(2):
        with pytest.raises(KeyError), slots.hold():
            raise KeyError
    with slots.hold():
        pass


# Make's jobserver


class Pipe:
    """A jobserver with some tokens, as make offers it."""

    def __init__(self, tokens: bytes) -> None:
        self.read, self.write = os.pipe()
        os.set_blocking(self.read, False)
        os.write(self.write, tokens)

    def tokens(self) -> bytes:
        try:
            return os.read(self.read, 100)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        os.close(self.read)
        os.close(self.write)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe(b"+-")
    yield made
    made.close()


def by_pipe(pipe: Pipe, form: str = "--jobserver-auth={},{}") -> Slots:
    return open_slots({"MAKEFLAGS": "-j3 " + form.format(pipe.read, pipe.write)}, 8, "")


@pytest.mark.parametrize(
    "form", ["--jobserver-auth={},{}", "--jobserver-fds={},{}", "x --jobserver-auth=9,9 --jobserver-auth={},{}"]
)
def test_make_decides_where_it_offers_a_jobserver(pipe: Pipe, form: str) -> None:
    assert isinstance(by_pipe(pipe, form), Jobserver)


def test_the_first_job_is_free_and_each_other_one_costs_a_token(pipe: Pipe) -> None:
    slots = by_pipe(pipe)
    with slots.hold():
        with slots.hold():
            assert pipe.tokens() == b"-"
            os.write(pipe.write, b"-")
        assert sorted(pipe.tokens()) == sorted(b"+-")


def test_the_very_tokens_that_were_taken_are_given_back(pipe: Pipe) -> None:
    slots = by_pipe(pipe)
    assert most_at_once(slots) <= 3
    assert sorted(pipe.tokens()) == sorted(b"+-")


@pytest.mark.parametrize("limit", [1, 2, 8])
def test_with_workers_elsewhere_a_compiler_needs_a_token_and_a_slot(pipe: Pipe, limit: int, tmp_path: Path) -> None:
    flags = {"MAKEFLAGS": f"-j3 --jobserver-auth={pipe.read},{pipe.write}"}
    slots = open_slots(flags, limit, str(tmp_path), elsewhere=True)
    assert most_at_once(slots) <= min(limit, 3)
    held = [slots.attempt() for _ in range(4)]
    assert sum(one is not None for one in held) == min(limit, 3)
    for one in held:
        if one is not None:
            one.__exit__(None, None, None)
    assert sorted(pipe.tokens()) == sorted(b"+-")
    with slots.hold():
        assert slots.attempt() is None, "without a token it gives the slot back"
        assert slots.attempt() is None


def test_a_token_is_given_back_after_an_error(pipe: Pipe) -> None:
    slots = by_pipe(pipe)
    with slots.hold(), pytest.raises(KeyError), slots.hold():
        raise KeyError
    assert sorted(pipe.tokens()) == sorted(b"+-")


def test_without_tokens_one_job_runs_at_a_time(pipe: Pipe) -> None:
    pipe.tokens()
    assert most_at_once(by_pipe(pipe), threads=3, rounds=2) == 1


def test_makes_own_pipe_stays_blocking() -> None:
    read, write = os.pipe()
    assert isinstance(open_slots({"MAKEFLAGS": f"--jobserver-auth={read},{write}"}, 2, ""), Jobserver)
    assert os.get_blocking(read)
    os.close(read)
    os.close(write)


def test_a_jobserver_may_be_a_fifo(tmp_path: Path) -> None:
    fifo = tmp_path / "jobs"
    os.mkfifo(fifo)
    keep = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    os.write(keep, b"abc")
    slots = open_slots({"MAKEFLAGS": f" -j4 --jobserver-auth=fifo:{fifo}"}, 8, "")
    assert isinstance(slots, Jobserver)
    assert most_at_once(slots) <= 4
    assert sorted(os.read(keep, 100)) == sorted(b"abc")
    os.close(keep)


@pytest.mark.parametrize(
    "flags",
    ["", "-j4", "--jobserver-auth=-2,-2", "--jobserver-auth=a,b", "--jobserver-auth=3", "--jobserver-auth=fifo:/gone"],
)
def test_without_a_jobserver_that_can_be_used_the_users_slots_decide(flags: str, tmp_path: Path) -> None:
    slots = open_slots({"MAKEFLAGS": flags}, 2, str(tmp_path))
    assert isinstance(slots, SharedSlots)
    assert slots.limit == 2


def test_numbers_that_stand_for_other_files_are_no_jobserver(tmp_path: Path) -> None:
    """Make closes its pipe for a recipe without `+`: the numbers are soon those of any file."""
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with path.open("r+b") as file, path.open("r+b") as other:
        slots = open_slots({"MAKEFLAGS": f"--jobserver-auth={file.fileno()},{other.fileno()}"}, 2, str(tmp_path))
        assert isinstance(slots, SharedSlots)
    assert path.read_bytes() == b"content"


def test_closed_numbers_are_no_jobserver(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    os.close(write)
    slots = open_slots({"MAKEFLAGS": f"--jobserver-auth={read},{write}"}, 2, str(tmp_path))
    assert isinstance(slots, SharedSlots)


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
    class Told(Exception):
        pass

    def check() -> None:
        raise Told

    slots = SharedSlots(1, str(tmp_path))
    with slots.hold(), pytest.raises(Told), SharedSlots(1, str(tmp_path)).hold(check):
        pass
    with slots.hold(check):  # free at once: nobody was waited for
        pass


def test_who_is_told_to_end_takes_no_token() -> None:
    class Told(Exception):
        pass

    def check() -> None:
        raise Told

    read, write = os.pipe()
    os.write(write, b"+")
    os.set_blocking(read, False)
    jobserver = Jobserver(read, write, 2)
    with jobserver.hold(), pytest.raises(Told), jobserver.hold(check):
        pass
    assert os.read(read, 2) == b"+"
    os.close(read)
    os.close(write)
