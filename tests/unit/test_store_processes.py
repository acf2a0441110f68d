"""Many processes at one local store, some of them killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import store_worker
from hipcache.store.layout import BLOCK
from hipcache.store.local import LocalStore
from store_clock import HandClock

KILLS = 60


class Workers:
    """Starts store_worker.py; whatever still runs at the end of the test is killed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._running: list[subprocess.Popen[str]] = []

    def start(self, verb: str, *, max_bytes: int = 0, seed: int = 0) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, store_worker.__file__, str(self.root), str(max_bytes), verb, str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._running.append(process)
        return process

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream:
                    stream.close()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def let_go(process: subprocess.Popen[str]) -> None:
    assert process.stdin
    process.stdin.close()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    with ExitStack() as stack:
        made = Workers(tmp_path / "store")
        stack.callback(made.end)
        yield made


@pytest.fixture
def store(workers: Workers) -> LocalStore:
    return LocalStore(workers.root, max_bytes=0)


def later(store: LocalStore) -> LocalStore:
    """The same store, ten minutes from now: leftovers are old enough to be swept."""
    return LocalStore(store.root, max_bytes=store.max_bytes, clock=HandClock(time.time() + 600))


def leftovers(store: LocalStore) -> list[str]:
    return os.listdir(store.root / "v2" / "tmp")


def on_disk(store: LocalStore) -> tuple[int, int]:
    files = [path for name in ("actions", "blobs") for path in (store.root / "v2" / name).glob("*")]
    return sum(-(-path.stat().st_size // BLOCK) * BLOCK for path in files), len(files)


def check_every_entry(store: LocalStore) -> None:
    """What is under a final name is whole, and is what somebody put."""
    for path in (store.root / "v2" / "actions").glob("*"):
        record = store.get_action(path.name)
        assert record is not None
        assert store_worker.is_content(record)
    for path in (store.root / "v2" / "blobs").glob("*"):
        found = store.get_blob(path.name)
        assert found is not None
        assert store_worker.is_content(found)


# Killed


def test_writers_killed_at_any_moment_leave_no_bad_entry_and_no_leftover(workers: Workers, store: LocalStore) -> None:
    dice = random.Random(1)
    for round_ in range(KILLS // 6):
        batch = [workers.start("fill", seed=6 * round_ + number) for number in range(6)]
        for process in batch:
            assert said(process) == "ready"
        for process in batch:
            time.sleep(dice.random() * 0.01)
            process.kill()
            process.wait()
    check_every_entry(store)
    bytes_held, entries = on_disk(store)
    assert store.size().bytes >= bytes_held, "a kill may only make the sum too high"
    assert store.size().entries >= entries
    later(store).collect()
    assert leftovers(store) == []
    assert (store.size().bytes, store.size().entries) == on_disk(store)


def test_the_work_directory_of_a_killed_process_is_swept(workers: Workers, store: LocalStore) -> None:
    process = workers.start("work")
    said(process)
    directory = Path(said(process))
    process.kill()
    process.wait()
    assert directory.exists()
    assert later(store).collect() >= 10_000
    assert leftovers(store) == []


def test_the_work_directory_of_a_live_process_is_not_swept(workers: Workers, store: LocalStore) -> None:
    process = workers.start("work")
    said(process)
    directory = Path(said(process))
    later(store).collect()
    later(store).clear()
    assert (directory / "a.o").exists()
    let_go(process)
    assert process.wait() == 0
    assert leftovers(store) == []


def test_a_put_sweeps_when_nobody_has_for_an_hour(workers: Workers, store: LocalStore) -> None:
    process = workers.start("work")
    said(process), said(process)
    process.kill()
    process.wait()
    store.put_blob(b"now")
    assert len(leftovers(store)) == 1
    LocalStore(store.root, max_bytes=0, clock=HandClock(time.time() + 4000)).put_blob(b"in an hour")
    assert leftovers(store) == []


def test_what_was_left_a_moment_ago_is_not_swept(store: LocalStore) -> None:
    """Between the creation of a file and its lock it looks dead."""
    store.put_blob(b"")
    (store.root / "v2" / "tmp" / "put-0").write_bytes(b"half")
    (store.root / "v2" / "tmp" / "work-0").mkdir()
    store.collect()
    assert sorted(leftovers(store)) == ["put-0", "work-0"]
    later(store).collect()
    assert leftovers(store) == []


# At once


@pytest.mark.parametrize("max_bytes", [0, 300_000], ids=["unbounded", "evicting"])
def test_eight_processes_put_get_and_evict_at_once(workers: Workers, store: LocalStore, max_bytes: int) -> None:
    store.put_action(store_worker.KEY, store_worker.content(1, 1))
    processes = [workers.start("mix", max_bytes=max_bytes, seed=seed) for seed in range(8)]
    assert [process.wait() for process in processes] == [0] * 8
    check_every_entry(store)
    assert leftovers(store) == []
    held = store.size()
    if max_bytes:
        assert on_disk(store)[0] <= max_bytes
    else:
        assert (held.bytes, held.entries) == on_disk(store), "no count was lost, none came twice"


# Locks


def test_a_second_process_waits_and_is_told_so(workers: Workers) -> None:
    """The waiter gets more time to ask with each try: nobody can see it wait."""
    for pause in (0.2, 2, 10):
        holder = workers.start("hold")
        assert (said(holder), said(holder)) == ("ready", "held")
        waiter = workers.start("take")
        assert said(waiter) == "ready"
        time.sleep(pause)
        let_go(holder)
        waited = said(waiter)
        assert waiter.wait() == holder.wait() == 0
        if waited == "True":
            return
    pytest.fail("the second process was not told that it waited")


def test_the_lock_of_a_killed_process_is_free(workers: Workers) -> None:
    holder = workers.start("hold")
    assert (said(holder), said(holder)) == ("ready", "held")
    waiter = workers.start("take")
    assert said(waiter) == "ready"
    holder.kill()
    assert said(waiter) in ("True", "False")
    assert waiter.wait() == 0


def test_ctrl_c_ends_the_wait_for_a_lock(workers: Workers) -> None:
    holder = workers.start("hold")
    assert (said(holder), said(holder)) == ("ready", "held")
    waiter = subprocess.Popen(
        [sys.executable, store_worker.__file__, str(workers.root), "0", "take"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert said(waiter) == "ready"
    waiter.send_signal(signal.SIGINT)
    assert waiter.communicate() == ("", None)
    assert waiter.returncode == -signal.SIGINT


def test_locks_leave_nothing_behind(store: LocalStore) -> None:
    with store.lock("a" * 64):
        pass
    before = sorted(os.listdir(store.root / "v2"))
    for number in range(100):
        with store.lock(f"{number:064x}"):
            pass
    assert sorted(os.listdir(store.root / "v2")) == before
    assert (store.root / "v2" / "locks").stat().st_size <= 4096 * 16  # the table of who holds them


# Limits


def test_a_file_size_limit_is_an_error_with_a_hint_and_leaves_nothing(workers: Workers, store: LocalStore) -> None:
    process = workers.start("big")
    output, _ = process.communicate()
    assert process.returncode == 0
    assert "File too large" in output
    assert "ulimit" in output
    assert leftovers(store) == []
    assert on_disk(store) == (0, 0)
