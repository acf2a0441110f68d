"""What every store must do. A new backend is one more line in BACKENDS."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from blake3 import blake3
from hipcache.errors import StoreError
from hipcache.store import Store
from hipcache.store.local import LocalStore

# Opens the same storage each time, as another process would.
Opener = Callable[[], Store]

KEY = "0123456789abcdef" * 4
OTHER_KEY = "f" * 64
RECORD = bytes(range(256))


def local(tmp_path: Path) -> Opener:
    return lambda: LocalStore(tmp_path / "store", max_bytes=0)


BACKENDS: dict[str, Callable[[Path], Opener]] = {"local": local}


@pytest.fixture(params=BACKENDS)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    return BACKENDS[request.param](tmp_path)


@pytest.fixture
def store(open_store: Opener) -> Store:
    return open_store()


@pytest.fixture
def destination(tmp_path: Path) -> Path:
    """A place in a directory that holds nothing else."""
    directory = tmp_path / "build"
    directory.mkdir()
    return directory / "out.o"


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


# Actions


def test_an_action_that_was_never_put_is_none(store: Store) -> None:
    assert store.get_action(KEY) is None


@pytest.mark.parametrize("record", [b"", b"x", RECORD, b"\0" * 5_000_000], ids=["empty", "1", "256", "5M"])
def test_an_action_comes_back_as_it_was_put(store: Store, record: bytes) -> None:
    store.put_action(KEY, record)
    assert store.get_action(KEY) == record


def test_another_store_on_the_same_storage_sees_the_action(open_store: Opener) -> None:
    open_store().put_action(KEY, RECORD)
    assert open_store().get_action(KEY) == RECORD


def test_an_action_put_again_is_replaced(store: Store) -> None:
    store.put_action(KEY, b"old, and longer")
    store.put_action(KEY, b"new")
    assert store.get_action(KEY) == b"new"


def test_actions_put_together_come_back_each_under_its_key(store: Store) -> None:
    records = {f"{number:064x}": b"%d" % number * number for number in range(200)}
    store.put_action(f"{7:064x}", b"older")
    store.put_actions(records)
    assert {key: store.get_action(key) for key in records} == records
    assert store.size().entries == 200


def test_blobs_put_together_are_there_once_each_under_their_digests(store: Store) -> None:
    contents = [b"%d" % (number % 150) * 999 for number in range(200)]
    first = store.put_blob(contents[3])
    digests = store.put_blobs(iter(contents))
    assert digests == [blake3(content).hexdigest() for content in contents]
    assert first == digests[3]
    assert [store.get_blob(digest) for digest in digests] == contents
    assert store.size().entries == 150


def test_nothing_put_together_is_nothing(store: Store) -> None:
    store.put_actions({})
    assert store.put_blobs([]) == []
    assert store.size().entries == 0


def test_a_removed_action_is_none(store: Store) -> None:
    store.put_action(KEY, RECORD)
    store.put_action(OTHER_KEY, RECORD)
    store.remove_action(KEY)
    assert store.get_action(KEY) is None
    assert store.get_action(OTHER_KEY) == RECORD


def test_removing_an_absent_action_is_no_error(store: Store) -> None:
    store.remove_action(KEY)


@pytest.mark.parametrize("name", ["", "ab", "../" * 21 + "x", KEY.upper(), KEY[:-1] + "\n", KEY + "0"])
def test_a_name_that_is_no_digest_is_refused(store: Store, name: str) -> None:
    with pytest.raises(ValueError, match="not a digest"):
        store.get_action(name)
    with pytest.raises(ValueError, match="not a digest"):
        store.put_action(name, RECORD)
    with pytest.raises(ValueError, match="not a digest"):
        store.get_blob(name)


# Blobs


def test_a_blob_that_was_never_put_is_absent(store: Store, destination: Path) -> None:
    assert not store.has_blob(KEY)
    assert store.get_blob(KEY) is None
    assert not store.copy_blob(KEY, destination)
    assert os.listdir(destination.parent) == []


@pytest.mark.parametrize("content", [b"", b"x", RECORD, RECORD * 20_000], ids=["empty", "1", "256", "5M"])
def test_a_blob_is_named_by_its_digest_and_comes_back(store: Store, content: bytes, destination: Path) -> None:
    digest = store.put_blob(content)
    assert digest == blake3(content).hexdigest()
    assert store.has_blob(digest)
    assert store.get_blob(digest) == content
    assert store.copy_blob(digest, destination)
    assert destination.read_bytes() == content


def test_a_blob_put_twice_is_held_once(store: Store) -> None:
    assert store.put_blob(RECORD) == store.put_blob(RECORD)
    assert store.size().entries == 1


def test_an_action_and_a_blob_of_one_name_are_two_things(store: Store) -> None:
    digest = store.put_blob(b"content")
    assert store.get_action(digest) is None
    store.put_action(digest, b"record")
    assert store.get_blob(digest) == b"content"
    store.remove_action(digest)
    assert store.has_blob(digest)


def test_a_copy_replaces_what_was_there_and_leaves_nothing_beside_it(store: Store, destination: Path) -> None:
    destination.write_bytes(b"old, and longer than the new one")
    assert store.copy_blob(store.put_blob(b"new"), destination)
    assert destination.read_bytes() == b"new"
    assert os.listdir(destination.parent) == [destination.name]


def test_a_copy_into_the_current_directory_needs_no_directory_name(
    store: Store, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = store.put_blob(RECORD)
    monkeypatch.chdir(destination.parent)
    assert store.copy_blob(digest, Path(destination.name))
    assert destination.read_bytes() == RECORD


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664), (0, 0o666)])
def test_a_copy_has_the_permissions_that_a_compiler_would_give(
    store: Store, destination: Path, mask: int, mode: int
) -> None:
    destination.write_bytes(b"")
    destination.chmod(0o400)
    digest = store.put_blob(RECORD)
    with umask(mask):
        assert store.copy_blob(digest, destination)
    assert stat.S_IMODE(destination.stat().st_mode) == mode


def test_writing_into_a_copy_does_not_change_the_store(store: Store, destination: Path) -> None:
    digest = store.put_blob(RECORD)
    assert store.copy_blob(digest, destination)
    with destination.open("r+b") as file:
        file.write(b"changed")
    assert store.get_blob(digest) == RECORD


def test_a_copy_is_no_link(store: Store, destination: Path) -> None:
    assert store.copy_blob(store.put_blob(RECORD), destination)
    assert destination.lstat().st_nlink == 1
    assert not destination.is_symlink()


def test_a_copy_replaces_a_symbolic_link_and_not_its_target_as_clang_does(store: Store, destination: Path) -> None:
    target = destination.with_name("target")
    target.write_bytes(b"stays")
    destination.symlink_to(target)
    assert store.copy_blob(store.put_blob(RECORD), destination)
    assert not destination.is_symlink()
    assert destination.read_bytes() == RECORD
    assert target.read_bytes() == b"stays"


def test_a_copy_to_dev_null_leaves_dev_null_what_it_is(store: Store, destination: Path) -> None:
    destination.symlink_to("/dev/null")
    assert store.copy_blob(store.put_blob(RECORD), destination)
    assert destination.is_symlink()
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_copy_to_a_fifo_goes_through_it(store: Store, destination: Path) -> None:
    os.mkfifo(destination)
    digest = store.put_blob(RECORD)
    with ThreadPoolExecutor() as pool:
        reader = pool.submit(destination.read_bytes)
        assert store.copy_blob(digest, destination)
        assert reader.result() == RECORD
    assert destination.is_fifo()


def test_a_destination_that_cannot_be_written_is_an_error_that_names_it(store: Store, destination: Path) -> None:
    digest = store.put_blob(RECORD)
    for bad in (destination.parent, destination / "out.o"):
        with pytest.raises(StoreError, match=f"cannot write '{bad}'"):
            store.copy_blob(digest, bad)
    assert os.listdir(destination.parent) == []
    assert store.has_blob(digest)


# Locks


def test_a_free_lock_is_given_without_a_wait(store: Store) -> None:
    for _ in range(2):
        with store.lock(KEY) as waited:
            assert waited is False


def test_locks_of_different_keys_do_not_meet(open_store: Opener) -> None:
    with open_store().lock(KEY), open_store().lock(OTHER_KEY) as waited:
        assert waited is False


def test_a_lock_is_released_by_an_exception(store: Store) -> None:
    with pytest.raises(RuntimeError), store.lock(KEY):
        raise RuntimeError
    with store.lock(KEY) as waited:
        assert waited is False


def test_an_error_inside_a_lock_is_not_swallowed(store: Store) -> None:
    with pytest.raises(OSError, match="theirs"), store.lock(KEY):
        raise OSError("theirs")


def test_threads_with_one_key_go_one_after_the_other(store: Store) -> None:
    inside = threading.Lock()

    def work(_: int) -> None:
        with store.lock(KEY):
            assert inside.acquire(blocking=False), "two were inside at once"
            inside.release()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(200)))


def test_who_had_to_wait_is_told_so(store: Store) -> None:
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


def test_a_workdir_is_writable_and_gone_at_the_end(store: Store) -> None:
    with store.workdir() as directory:
        (directory / "sub").mkdir()
        (directory / "sub" / "a.bc").write_bytes(RECORD)
    assert not directory.exists()


def test_a_workdir_is_gone_after_an_exception(store: Store) -> None:
    with pytest.raises(KeyboardInterrupt), store.workdir() as directory:
        raise KeyboardInterrupt
    assert not directory.exists()


def test_two_workdirs_are_two_directories(store: Store) -> None:
    with store.workdir() as first, store.workdir() as second:
        assert first != second


def test_a_workdir_that_was_removed_inside_is_no_error(store: Store) -> None:
    with store.workdir() as directory:
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()


# The whole


def test_a_new_store_is_empty(store: Store) -> None:
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


def test_collect_with_room_left_removes_nothing(store: Store) -> None:
    store.put_action(KEY, RECORD)
    assert store.collect() == 0
    assert store.collect(10**9) == 0
    assert store.get_action(KEY) == RECORD


def test_collect_removes_until_the_bound_is_kept(store: Store) -> None:
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
def test_an_emptied_store_holds_nothing_and_can_be_used(store: Store, empty: Callable[[Store], int]) -> None:
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


def test_threads_share_one_store(store: Store, tmp_path: Path) -> None:
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
