"""What the store does for locks and work directories, and as a whole."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from blake3 import blake3
from hipcache.store.local import LocalStore
from store_fixtures import KEY, OTHER_KEY, RECORD, Opener, open_store, store

__all__ = ["open_store", "store"]

# Locks


def test_a_free_lock_is_given_without_a_wait(store: LocalStore) -> None:
    for _ in range(2):
        with store.lock(KEY) as waited:
            assert waited is False


def test_locks_of_different_keys_do_not_meet(open_store: Opener) -> None:
    with open_store().lock(KEY), open_store().lock(OTHER_KEY) as waited:
        assert waited is False


def test_a_lock_is_released_by_an_exception(store: LocalStore) -> None:
    with pytest.raises(RuntimeError), store.lock(KEY):
        raise RuntimeError
    with store.lock(KEY) as waited:
        assert waited is False


def test_an_error_inside_a_lock_is_not_swallowed(store: LocalStore) -> None:
    with pytest.raises(OSError, match="theirs"), store.lock(KEY):
        raise OSError("theirs")


def test_threads_with_one_key_go_one_after_the_other(store: LocalStore) -> None:
    inside = threading.Lock()

    def work(_: int) -> None:
        with store.lock(KEY):
            assert inside.acquire(blocking=False), "two were inside at once"
            inside.release()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(200)))


def test_who_had_to_wait_is_told_so(store: LocalStore) -> None:
    """Whether the second one asks before the first one leaves is up to the scheduler: each try gives it more time."""

    def ask(asking: threading.Event) -> bool:
        asking.set()
        with store.lock(KEY) as waited:
            return waited

    with ThreadPoolExecutor() as pool:
        for pause in (0.02, 0.2, 2, 10):
            asking = threading.Event()
            with store.lock(KEY):
                second = pool.submit(ask, asking)
                asking.wait()
                threading.Event().wait(pause)
            if second.result():
                return
    pytest.fail("nobody was told that it waited")


# Work directories


def test_a_workdir_is_writable_and_gone_at_the_end(store: LocalStore) -> None:
    with store.workdir() as directory:
        (directory / "sub").mkdir()
        (directory / "sub" / "a.bc").write_bytes(RECORD)
    assert not directory.exists()


def test_a_workdir_is_gone_after_an_exception(store: LocalStore) -> None:
    with pytest.raises(KeyboardInterrupt), store.workdir() as directory:
        raise KeyboardInterrupt
    assert not directory.exists()


def test_two_workdirs_are_two_directories(store: LocalStore) -> None:
    with store.workdir() as first, store.workdir() as second:
        assert first != second


def test_a_workdir_that_was_removed_inside_is_no_error(store: LocalStore) -> None:
    with store.workdir() as directory:
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()


# The whole


def test_a_new_store_is_empty(store: LocalStore) -> None:
    size = store.size()
    assert (size.bytes, size.entries) == (0, 0)
    assert store.collect() == 0
    assert store.clear() == 0


def test_size_counts_actions_and_blobs(open_store: Opener) -> None:
    store = open_store()
    store.put_action(KEY, RECORD)
    store.put_action(KEY, RECORD * 2)
    store.put_blob(RECORD * 3)
    size = open_store().size()
    assert size.entries == 2
    assert size.bytes >= len(RECORD) * 5
    store.remove_action(KEY)
    assert store.size().entries == 1


def test_collect_with_room_left_removes_nothing(store: LocalStore) -> None:
    store.put_action(KEY, RECORD)
    assert store.collect() == 0
    assert store.collect(10**9) == 0
    assert store.get_action(KEY) == RECORD


def test_collect_removes_until_the_bound_is_kept(store: LocalStore) -> None:
    for number in range(20):
        store.put_blob(bytes([number]) * 1000)
    before = store.size()
    freed = store.collect(before.bytes // 2)
    after = store.size()
    assert 0 < after.bytes <= before.bytes // 2
    assert freed == before.bytes - after.bytes
    assert sum(store.has_blob(blake3(bytes([number]) * 1000).hexdigest()) for number in range(20)) == after.entries


@pytest.mark.parametrize(
    "empty", [lambda store: store.clear(), lambda store: store.collect(0)], ids=["clear", "collect"]
)
def test_an_emptied_store_holds_nothing_and_can_be_used(store: LocalStore, empty: Callable[[LocalStore], int]) -> None:
    store.put_action(KEY, RECORD)
    digest = store.put_blob(RECORD)
    held = store.size().bytes
    assert empty(store) == held
    assert store.get_action(KEY) is None
    assert not store.has_blob(digest)
    assert (store.size().bytes, store.size().entries) == (0, 0)
    store.put_action(KEY, RECORD)
    assert store.get_action(KEY) == RECORD


def test_a_compile_goes_on_while_the_store_is_cleared(open_store: Opener) -> None:
    store = open_store()
    with store.lock(KEY), store.workdir() as directory:
        (directory / "a.o").write_bytes(RECORD)
        open_store().clear()
        assert (directory / "a.o").read_bytes() == RECORD
        digest = store.put_blob(RECORD)
    assert store.get_blob(digest) == RECORD


def test_threads_share_one_store(store: LocalStore, tmp_path: Path) -> None:
    """Every thread puts, gets and copies the same few entries; nobody ever sees half of one."""

    def work(number: int) -> None:
        name = number % 5
        key, content = f"{name:064x}", bytes([name]) * (1 + 30_000 * name)
        store.put_action(key, content)
        assert store.get_action(key) == content
        digest = store.put_blob(content)
        destination = tmp_path / f"out-{number % 3}"
        assert store.copy_blob(digest, destination)
        assert len(set(destination.read_bytes())) == 1

    work(0)  # the first put begins a count, which may count twice what is put meanwhile (store/ledger.py)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(200)))
    assert store.size().entries == 10
