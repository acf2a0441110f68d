"""The local store where the disk refuses, where a put is interrupted, without locks, and with those of others."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3
from hipcache.base import locks
from hipcache.base.errors import StoreError
from hipcache.store import entries as entries_module
from hipcache.store import output, work
from hipcache.store.confined import Confined
from hipcache.store.local import LocalStore
from local_store import CONTENT, KEY, files, root, store

__all__ = ["root", "store"]

as_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


# What is in the way


@pytest.mark.parametrize("part", ["", "v2", "v2/actions", "v2/tmp"])
def test_a_file_where_the_store_needs_a_directory_is_named(root: Path, store: LocalStore, part: str) -> None:
    blocked = root / part
    blocked.parent.mkdir(parents=True)
    blocked.write_bytes(b"not yours")
    assert store.get_action(KEY) is None
    with pytest.raises(StoreError) as caught:
        store.put_action(KEY, CONTENT)
    assert f"'{blocked}'" in caught.value.message
    assert "remove it, or set HIPCACHE_DIR" in caught.value.hint
    assert blocked.read_bytes() == b"not yours"
    assert not any("put-" in name for name in files(root.parent))


def test_a_link_in_the_place_of_the_directory_for_work_is_replaced(
    root: Path, store: LocalStore, tmp_path: Path
) -> None:
    store.put_action(KEY, CONTENT)
    (root / "v2/tmp").rmdir()
    (root / "v2/tmp").symlink_to(tmp_path)
    with store.workdir() as directory:
        assert directory.parent == root / "v2/tmp"
        assert directory.is_dir()
    assert not (root / "v2/tmp").is_symlink()


def test_a_store_in_the_way_of_a_workdir_is_an_error_and_of_a_lock_is_not(root: Path, store: LocalStore) -> None:
    root.parent.mkdir(parents=True)
    root.write_bytes(b"not yours")
    with pytest.raises(StoreError), store.workdir():
        pass
    for call in (store.size, store.collect, store.clear):
        with pytest.raises(StoreError):
            call()
    with store.lock(KEY) as waited:
        assert waited is False


@as_user
def test_a_directory_that_may_not_be_written_is_an_error_with_a_hint(root: Path, store: LocalStore) -> None:
    root.mkdir(parents=True)
    root.chmod(0o500)
    with pytest.raises(StoreError, match="Permission denied") as caught:
        store.put_action(KEY, CONTENT)
    assert "HIPCACHE_READONLY" in caught.value.hint


# A full disk, a read-only disk


def test_a_full_disk_is_an_error_with_a_hint_and_leaves_no_half_entry(small_disk: Path, tmp_path: Path) -> None:
    store = LocalStore(small_disk / "store", max_bytes=0)
    digests = []
    with pytest.raises(StoreError, match="No space left on device") as caught:
        for number in range(100):
            digests.append(store.put_blob(bytes([number]) * 20_000))
    assert "HIPCACHE_MAX_SIZE" in caught.value.hint
    assert os.listdir(store.root / "v2" / "tmp") == []
    assert len(digests) > 5
    assert all(store.get_blob(digest) is not None for digest in digests)
    assert store.size().entries == len(digests)
    with pytest.raises(StoreError, match="No space left on device"):
        store.put_action(KEY, bytes(50_000))
    with store.lock(KEY) as waited:
        assert waited is False
    build = small_disk / "build"
    build.mkdir()
    with pytest.raises(StoreError, match="cannot write"):
        store.copy_blob(digests[0], build / "out.o")
    assert os.listdir(build) == []
    assert store.has_blob(digests[0])
    assert store.collect(0) > 0
    assert store.get_blob(store.put_blob(CONTENT)) == CONTENT


def test_a_read_only_disk_can_be_read(small_disk: Path) -> None:
    LocalStore(small_disk / "store", max_bytes=0).put_action(KEY, CONTENT)
    digest = LocalStore(small_disk / "store", max_bytes=0).put_blob(CONTENT)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    store = LocalStore(small_disk / "store", max_bytes=0)
    assert store.get_action(KEY) == CONTENT
    assert store.put_blob(CONTENT) == digest
    assert store.size().entries == 2
    with store.lock(KEY) as waited:
        assert waited is False
    with pytest.raises(StoreError, match="Read-only file system") as caught:
        store.put_action(KEY, b"new")
    assert "HIPCACHE_READONLY" in caught.value.hint
    with pytest.raises(StoreError), store.workdir():
        pass


# Interrupted


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_put_leaves_nothing(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_action(KEY, b"old")
    monkeypatch.setattr(entries_module, "write_all", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.put_action(KEY, CONTENT)
    assert store.get_action(KEY) == b"old"
    assert os.listdir(store.root / "v2" / "tmp") == []


def test_an_interrupted_put_of_several_leaves_whole_entries_and_a_sum_that_is_not_too_low(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = [b"%d" % number * 5000 for number in range(10)]
    rename, done = entries_module._rename_into, list[str]()

    def some(confined: Confined, temporary: str, name: str) -> None:
        if len(done) == 4:
            raise KeyboardInterrupt
        rename(confined, temporary, name)
        done.append(name)

    monkeypatch.setattr(entries_module, "_rename_into", some)
    with pytest.raises(KeyboardInterrupt):
        store.put_blobs(contents)
    assert [store.get_blob(blake3(content).hexdigest()) for content in contents] == [*contents[:4], *[None] * 6]
    assert os.listdir(store.root / "v2" / "tmp") == []
    assert store.size().entries >= 4


def test_a_put_of_several_of_which_one_is_blocked_keeps_the_sum_right(
    root: Path, store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = [b"%d" % number * 5000 for number in range(100)]
    last = blake3(contents[-1]).hexdigest()
    store.put_blobs(contents[:3])
    rename = entries_module._rename_into

    def all_but_last(confined: Confined, temporary: str, name: str) -> None:
        if name.endswith(last):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rename(confined, temporary, name)

    monkeypatch.setattr(entries_module, "_rename_into", all_but_last)
    with pytest.raises(StoreError):
        store.put_blobs(contents)
    there = [content for content in contents if store.get_blob(blake3(content).hexdigest()) == content]
    assert contents[:64] == there[:64]
    assert contents[-1] not in there
    assert store.size().entries == len(there)
    assert os.listdir(root / "v2" / "tmp") == []


def test_an_interrupted_copy_leaves_the_destination_as_it_was(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = tmp_path / "build"
    build.mkdir()
    (build / "out.o").write_bytes(b"old")
    digest = store.put_blob(CONTENT)
    for step in ("_clone", "_allocate", "_copy"):
        with monkeypatch.context() as patch:
            if step != "_clone":
                patch.setattr(output, "_clone", lambda *_: False)
            patch.setattr(output, step, interrupt)
            with pytest.raises(KeyboardInterrupt):
                store.copy_blob(digest, build / "out.o")
        assert os.listdir(build) == ["out.o"]
        assert (build / "out.o").read_bytes() == b"old"
    assert store.get_blob(digest) == CONTENT


def test_a_clone_is_read_again_before_it_is_delivered(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both kinds of file system: one that shares blocks rightly, and one that gives other bytes."""

    def clone_to(content: bytes) -> None:
        monkeypatch.setattr(output, "_clone", lambda _, target: os.write(target, content) > 0)

    digest = store.put_blob(CONTENT)
    clone_to(CONTENT)
    assert store.copy_blob(digest, tmp_path / "out.o")
    assert (tmp_path / "out.o").read_bytes() == CONTENT
    clone_to(b"other bytes")
    assert not store.copy_blob(digest, tmp_path / "other.o")
    assert not (tmp_path / "other.o").exists()


# Without locks


def test_everything_works_where_the_file_system_has_no_locks(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(locks.fcntl, "fcntl", refuse)
    bounded = LocalStore(root, max_bytes=50_000)
    with store.lock(KEY) as waited, store.workdir():
        assert waited is False
        for number in range(20):
            bounded.put_blob(bytes([number]) * 4096)
    assert 0 < store.size().bytes <= 50_000
    store.collect()
    store.clear()
    assert store.size().entries == 0


# Locks that do not come free


@pytest.mark.parametrize("row", ["another process", "no process"])
def test_a_holder_that_the_kernel_does_not_confirm_is_not_waited_for_long(
    row: str, root: Path, store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped compile in another container: its number is none here, or another process's."""
    monkeypatch.setattr(locks, "_CHECK", 0.02)  # 1 s
    monkeypatch.setattr(locks, "UNCONFIRMED", 0.1)  # 10 s
    monkeypatch.setattr(work, "_PATIENCE", 30.0)  # half an hour
    store.put_action(KEY, CONTENT)
    with store.lock(KEY):
        pass
    fd, offset = os.open(root / "v2" / "locks", os.O_RDWR), locks.key_offset(KEY)
    assert locks.try_lock(fd, offset)
    os.pwrite(fd, struct.pack("<QQ", offset, os.getppid() if row == "another process" else 1 << 30), offset % 256 * 16)
    told: list[float] = []
    waits = LocalStore(root, max_bytes=0)
    waits.work.on_timeout = told.append
    with waits.lock(KEY):
        assert told
        assert told[0] < 30
    os.close(fd)


@pytest.fixture
def busy(root: Path, store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The open file in which the lock of KEY is held, by a process with another number."""
    monkeypatch.setattr(locks, "_CHECK", 0.02)  # 1 s
    monkeypatch.setattr(locks, "UNCONFIRMED", 0.1)  # 10 s
    store.put_action(KEY, CONTENT)
    with store.lock(KEY):
        pass
    fd, offset = os.open(root / "v2" / "locks", os.O_RDWR), locks.key_offset(KEY)
    assert locks.try_lock(fd, offset)
    os.pwrite(fd, struct.pack("<QQ", offset, os.getppid()), offset % 256 * 16)
    yield fd
    os.close(fd)


@pytest.mark.parametrize("lets_go_at", [5, 7])
def test_only_two_doubts_in_a_row_end_a_wait(
    lets_go_at: int, busy: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who lets go of the lock while the second of them arises has not held up anybody in vain."""
    answers = [False, True, True, False, True, False, False]
    asked = []

    def is_held_by(pid: int, fd: int, offset: int) -> bool:
        asked.append(pid)
        if len(asked) == lets_go_at:
            locks.unlock(busy, locks.key_offset(KEY))
        return answers[len(asked) - 1]

    monkeypatch.setattr(locks, "is_held_by", is_held_by)
    waits, told = LocalStore(root, max_bytes=0), []
    waits.work.on_timeout = told.append
    with waits.lock(KEY) as waited:
        assert waited
    assert len(asked) == lets_go_at
    assert not told
