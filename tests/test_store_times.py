"""What the times of a store's files tell: the last use to within an hour, and nothing where a clock was far ahead."""

from __future__ import annotations

from pathlib import Path

import pytest
from hipcache.store.local import LocalStore
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
