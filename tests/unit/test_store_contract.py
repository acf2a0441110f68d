"""What the store does for actions and blobs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from blake3 import blake3
from hipcache.base.errors import StoreError
from hipcache.store.local import LocalStore
from store_fixtures import KEY, OTHER_KEY, RECORD, Opener, open_store, store

__all__ = ["open_store", "store"]


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


def test_an_action_that_was_never_put_is_none(store: LocalStore) -> None:
    assert store.get_action(KEY) is None


@pytest.mark.parametrize("record", [b"", b"x", RECORD, b"\0" * 5_000_000], ids=["empty", "1", "256", "5M"])
def test_an_action_comes_back_as_it_was_put(store: LocalStore, record: bytes) -> None:
    store.put_action(KEY, record)
    assert store.get_action(KEY) == record


def test_another_store_on_the_same_storage_sees_the_action(open_store: Opener) -> None:
    open_store().put_action(KEY, RECORD)
    assert open_store().get_action(KEY) == RECORD


def test_an_action_put_again_is_replaced(store: LocalStore) -> None:
    store.put_action(KEY, b"old, and longer")
    store.put_action(KEY, b"new")
    assert store.get_action(KEY) == b"new"


def test_actions_put_together_come_back_each_under_its_key(store: LocalStore) -> None:
    records = {f"{number:064x}": b"%d" % number * number for number in range(200)}
    store.put_action(f"{7:064x}", b"older")
    store.put_actions(records)
    assert {key: store.get_action(key) for key in records} == records
    assert store.size().entries == 200


def test_blobs_put_together_are_there_once_each_under_their_digests(store: LocalStore) -> None:
    contents = [b"%d" % (number % 150) * 999 for number in range(200)]
    first = store.put_blob(contents[3])
    digests = store.put_blobs(iter(contents))
    assert digests == [blake3(content).hexdigest() for content in contents]
    assert first == digests[3]
    assert [store.get_blob(digest) for digest in digests] == contents
    assert store.size().entries == 150


def test_nothing_put_together_is_nothing(store: LocalStore) -> None:
    store.put_actions({})
    assert store.put_blobs([]) == []
    assert store.size().entries == 0


def test_a_removed_action_is_none(store: LocalStore) -> None:
    store.put_action(KEY, RECORD)
    store.put_action(OTHER_KEY, RECORD)
    store.remove_action(KEY)
    assert store.get_action(KEY) is None
    assert store.get_action(OTHER_KEY) == RECORD


def test_removing_an_absent_action_is_no_error(store: LocalStore) -> None:
    store.remove_action(KEY)


@pytest.mark.parametrize("name", ["", "ab", "../" * 21 + "x", KEY.upper(), KEY[:-1] + "\n", KEY + "0"])
def test_a_name_that_is_no_digest_is_refused(store: LocalStore, name: str) -> None:
    with pytest.raises(ValueError, match="not a digest"):
        store.get_action(name)
    with pytest.raises(ValueError, match="not a digest"):
        store.put_action(name, RECORD)
    with pytest.raises(ValueError, match="not a digest"):
        store.get_blob(name)


# Blobs


def test_a_blob_that_was_never_put_is_absent(store: LocalStore, destination: Path) -> None:
    assert not store.has_blob(KEY)
    assert store.get_blob(KEY) is None
    assert not store.copy_blob(KEY, destination)
    assert os.listdir(destination.parent) == []


@pytest.mark.parametrize("content", [b"", b"x", RECORD, RECORD * 20_000], ids=["empty", "1", "256", "5M"])
def test_a_blob_is_named_by_its_digest_and_comes_back(store: LocalStore, content: bytes, destination: Path) -> None:
    digest = store.put_blob(content)
    assert digest == blake3(content).hexdigest()
    assert store.has_blob(digest)
    assert store.get_blob(digest) == content
    assert store.copy_blob(digest, destination)
    assert destination.read_bytes() == content


def test_a_blob_put_twice_is_held_once(store: LocalStore) -> None:
    assert store.put_blob(RECORD) == store.put_blob(RECORD)
    assert store.size().entries == 1


def test_an_action_and_a_blob_of_one_name_are_two_things(store: LocalStore) -> None:
    digest = store.put_blob(b"content")
    assert store.get_action(digest) is None
    store.put_action(digest, b"record")
    assert store.get_blob(digest) == b"content"
    store.remove_action(digest)
    assert store.has_blob(digest)


def test_a_copy_replaces_what_was_there_and_leaves_nothing_beside_it(store: LocalStore, destination: Path) -> None:
    destination.write_bytes(b"old, and longer than the new one")
    assert store.copy_blob(store.put_blob(b"new"), destination)
    assert destination.read_bytes() == b"new"
    assert os.listdir(destination.parent) == [destination.name]


def test_a_copy_into_the_current_directory_needs_no_directory_name(
    store: LocalStore, destination: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = store.put_blob(RECORD)
    monkeypatch.chdir(destination.parent)
    assert store.copy_blob(digest, Path(destination.name))
    assert destination.read_bytes() == RECORD


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664), (0, 0o666)])
def test_a_copy_has_the_permissions_that_a_compiler_would_give(
    store: LocalStore, destination: Path, mask: int, mode: int
) -> None:
    destination.write_bytes(b"")
    destination.chmod(0o400)
    digest = store.put_blob(RECORD)
    with umask(mask):
        assert store.copy_blob(digest, destination)
    assert stat.S_IMODE(destination.stat().st_mode) == mode


def test_writing_into_a_copy_does_not_change_the_store(store: LocalStore, destination: Path) -> None:
    digest = store.put_blob(RECORD)
    assert store.copy_blob(digest, destination)
    with destination.open("r+b") as file:
        file.write(b"changed")
    assert store.get_blob(digest) == RECORD


def test_a_copy_is_no_link(store: LocalStore, destination: Path) -> None:
    assert store.copy_blob(store.put_blob(RECORD), destination)
    assert destination.lstat().st_nlink == 1
    assert not destination.is_symlink()


def test_a_copy_replaces_a_symbolic_link_and_not_its_target_as_clang_does(store: LocalStore, destination: Path) -> None:
    target = destination.with_name("target")
    target.write_bytes(b"stays")
    destination.symlink_to(target)
    assert store.copy_blob(store.put_blob(RECORD), destination)
    assert not destination.is_symlink()
    assert destination.read_bytes() == RECORD
    assert target.read_bytes() == b"stays"


def test_a_copy_to_dev_null_leaves_dev_null_what_it_is(store: LocalStore, destination: Path) -> None:
    destination.symlink_to("/dev/null")
    assert store.copy_blob(store.put_blob(RECORD), destination)
    assert destination.is_symlink()
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_copy_to_a_fifo_goes_through_it(store: LocalStore, destination: Path) -> None:
    os.mkfifo(destination)
    digest = store.put_blob(RECORD)
    with ThreadPoolExecutor() as pool:
        reader = pool.submit(destination.read_bytes)
        assert store.copy_blob(digest, destination)
        assert reader.result() == RECORD
    assert destination.is_fifo()


def test_a_destination_that_cannot_be_written_is_an_error_that_names_it(store: LocalStore, destination: Path) -> None:
    digest = store.put_blob(RECORD)
    for bad in (destination.parent, destination / "out.o"):
        with pytest.raises(StoreError, match=f"cannot write '{bad}'"):
            store.copy_blob(digest, bad)
    assert os.listdir(destination.parent) == []
    assert store.has_blob(digest)
