"""The queue of what is to be uploaded, on disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hipcache.remote import queue
from hipcache.store.confined import Confined

KEY, OTHER = "a" * 64, "b" * 64


def test_the_queue_gives_what_was_put_in_the_order_of_time(tmp_path: Path) -> None:
    store = Confined(tmp_path)
    assert queue.read(store, 10) == ([], set())
    assert queue.add(store, [KEY], [OTHER])
    assert queue.add(store, [OTHER], [])
    (first, second), _ = queue.read(store, 10)
    assert (first.keys, first.next, second.keys) == ((KEY,), (OTHER,), (OTHER,))
    queue.remove(store, first.name)
    assert queue.read(store, 10) == ([second], set())


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", "null", '{"keys": ["../../etc"], "next": []}', '{"keys": 1, "next": 2}', " " * (2 << 20)],
    ids=["empty", "no keys", "a list", "null", "a path", "numbers", "too large"],
)
def test_an_item_that_does_not_read_is_removed(tmp_path: Path, content: str) -> None:
    store = Confined(tmp_path)
    queue.add(store, [KEY], [])
    (item,) = (tmp_path / "v2/remote").glob("item-*")
    item.write_text(content)
    assert queue.read(store, 10) == ([], set())
    assert not item.exists()


def test_items_that_this_user_cannot_read_are_told_and_hide_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Confined(tmp_path)
    for key in KEY, OTHER:
        queue.add(store, [key], [])
    first, second = queue.names(store)
    read = Confined.read

    def denied(self: Confined, name: str, most: int) -> bytes:
        if name.endswith(first):
            raise PermissionError(errno.EACCES, "another user's")
        return read(self, name, most)

    monkeypatch.setattr(Confined, "read", denied)
    items, unreadable = queue.read(store, 1)
    assert ([item.name for item in items], unreadable) == ([second], {first})
    assert queue.names(store) == [first, second]


def test_what_a_killed_process_has_begun_is_removed_after_some_days(tmp_path: Path) -> None:
    store = Confined(tmp_path)
    queue.add(store, [KEY], [])
    old, young = (tmp_path / f"v2/remote/new-{letter * 24}" for letter in "ab")
    for path in old, young:
        path.touch()
    os.utime(old, (0, 0))
    queue.drop_old(store, "")
    assert [path.exists() for path in (old, young)] == [False, True]
    assert len(queue.names(store)) == 1
