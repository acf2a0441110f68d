"""What the times of a store's files tell: the last use to within an hour, and nothing where a clock was far ahead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hipcache.report.history import History, Record
from hipcache.store.local import LocalStore
from local_store import files
from store_clock import HandClock

DAY, HOUR = 86400, 3600


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(tmp_path: Path, clock: HandClock) -> LocalStore:
    return LocalStore(tmp_path / "store", max_bytes=0, clock=clock)


@pytest.mark.parametrize(("age", "kept"), [(0, True), (HOUR, True), (HOUR + 1700, True), (HOUR + 1900, False)])
def test_an_entry_may_have_been_used_within_the_hour_after_the_use_that_is_noted(
    store: LocalStore, clock: HandClock, age: int, kept: bool
) -> None:
    """A direct hit notes it once an hour."""
    digest = store.put_blob(b"content")
    clock.tick(age)
    store.collect(unused_for=1800)
    assert store.has_blob(digest) is kept


@pytest.mark.parametrize(("ahead", "kept"), [(-40, True), (40, True), (400 * DAY, False), (-400 * DAY, False)])
def test_leftovers_of_a_clock_that_was_far_ahead_are_swept(
    store: LocalStore, clock: HandClock, ahead: int, kept: bool
) -> None:
    digest = store.put_blob(b"content")
    tmp = store.root / "v2/tmp"
    (tmp / "work-dead").mkdir()
    for left in (tmp / "put-dead", tmp / "work-dead/.lock"):
        left.touch()
        os.utime(left, (clock.now + ahead, clock.now + ahead))
    store.collect()
    assert files(tmp) == (["put-dead", "work-dead/.lock"] if kept else [])
    assert store.has_blob(digest)


def test_a_work_directory_that_is_in_use_stays_whatever_its_time_is(store: LocalStore, clock: HandClock) -> None:
    with store.workdir() as directory:
        os.utime(directory / ".lock", (clock.now + 400 * DAY, clock.now + 400 * DAY))
        LocalStore(store.root, max_bytes=0, clock=clock).collect()
        assert directory.exists()


@pytest.mark.parametrize(("ahead", "kept"), [(HOUR, True), (2 * DAY, False)])
def test_an_entry_of_a_clock_that_was_far_ahead_goes_first_and_is_not_taken_for_unused(
    store: LocalStore, clock: HandClock, ahead: int, kept: bool
) -> None:
    other = store.put_blob(b"other")
    clock.tick(ahead)
    digest = store.put_blob(b"content")
    clock.tick(-ahead)
    store.collect(unused_for=DAY)
    assert store.has_blob(digest)
    store.collect(store.size().bytes // 2)
    assert (store.has_blob(digest), store.has_blob(other)) == (kept, not kept)


def test_a_record_of_a_clock_that_was_far_ahead_is_the_oldest(store: LocalStore, clock: HandClock) -> None:
    history = History(store.notes())
    for number in range(5):
        history.save(compiled(clock.now + 400 * DAY, f"-DA={number}"))
    for number in range(5):
        clock.tick()
        now = compiled(clock.now, f"-DB={number}")
        history.save(now)
        assert history.load("/b/k.o") == history.last() == now


def test_a_hit_of_a_clock_that_was_far_ahead_is_not_told(store: LocalStore, clock: HandClock) -> None:
    history, miss = History(store.notes()), compiled(clock.now, "-c")
    history.save(miss)
    then = clock.now + 400 * DAY
    os.utime(store.root / "v2" / History.name(miss), (then, then))
    assert history.load("/b/k.o") == miss


def compiled(when: float, *command: str) -> Record:
    return Record("/b/k.o", when, command, "/b", "miss", "", "", (), {}, ())
