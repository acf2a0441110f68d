"""Make's jobserver decides where it offers one; a token of make's is always given back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hipcache.processes.slots import Jobserver, SharedSlots, Slots, open_slots
from most_at_once import most_at_once


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
