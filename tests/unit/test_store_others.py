"""Users of other numbers at one store: who may only read cannot hold up anybody, and a store of another one serves."""

from __future__ import annotations

import ctypes
import os
import select
import stat
import struct
import time
from pathlib import Path

import pytest
from blake3 import blake3
from hipcache.base import locks
from hipcache.cli import config
from hipcache.config import Config
from hipcache.config.files import STORE
from hipcache.report import conditions, statistics
from hipcache.report.outcome import CompileOutcome
from hipcache.store.local import LocalStore, open_store
from store_users import CONTENT, GROUP, KEY, OTHER, OWNER, Locker, as_user, fill, root

__all__ = ["root"]
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")


def seconds(user: int, root: Path, umask: int | None = None) -> float:
    """For a compile's uses of the store."""

    def uses() -> None:
        store = LocalStore(root, max_bytes=0, umask=umask)
        for number in range(10):
            with store.lock(f"{number:064x}"):
                store.put_action(f"{number:064x}", CONTENT)
                assert store.get_action(f"{number:064x}") == CONTENT
        assert store.put_blob(b"other content")
        assert statistics.record(root, CompileOutcome("hit"), umask)
        assert statistics.read(root).compiles["hit"] == 2

    start = time.monotonic()
    assert as_user(user, uses) == 0
    return time.monotonic() - start


def test_a_private_store_cannot_be_reached_by_another_user(root: Path) -> None:
    assert as_user(OWNER, lambda: fill(root)) == 0
    with Locker(OTHER, root) as locker:
        assert locker.locks == 0
        assert seconds(OWNER, root) < 4.5  # a lock that is waited for costs 5


def test_who_may_only_read_holds_up_nobody(root: Path) -> None:
    assert as_user(OWNER, lambda: fill(root, 0o022)) == 0
    with Locker(OTHER, root) as locker:
        assert locker.locks > 2
        assert seconds(OWNER, root, 0o022) < 4.5  # a lock that is waited for costs 5


def test_who_may_write_holds_up_others_for_some_seconds(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the store of a group there is an end."""
    monkeypatch.setattr(locks, "_UNKNOWN", 1.0)  # 5 s
    assert as_user(OWNER, lambda: fill(root, 0o007)) == 0
    with Locker(OTHER, root) as locker:
        assert locker.locks > 4
        assert 1 < seconds(OWNER, root, 0o007) < 50


def lock_of(root: Path, row: int) -> int:
    """Hold KEY's byte, and say that process `row` does; the open file."""
    fd, offset = os.open(root / "v2" / "locks", os.O_RDWR), locks.key_offset(KEY)
    assert locks.try_lock(fd, offset)
    os.pwrite(fd, struct.pack("<QQ", offset, row), offset % 256 * 16)
    return fd


def waits(root: Path, told: int) -> bool:
    """Is the lock of KEY had? Without a byte, or with one, in `told` for a wait in vain."""
    store = LocalStore(root, max_bytes=0, umask=0o007)
    store.work.on_timeout = lambda seconds: os.write(told, b"t")
    with store.lock(KEY):
        return True


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_CHECK", 0.02)  # 1 s
    monkeypatch.setattr(locks, "UNCONFIRMED", 0.1)  # 10 s


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("who", ["itself", "the owner's process"])
def test_another_users_lock_is_not_waited_for_long_whatever_its_row_says(root: Path, who: str) -> None:
    assert as_user(OWNER, lambda: fill(root, 0o007)) == 0
    ready, told = os.pipe()
    bystander, holder = os.fork(), 0
    if not bystander:
        os.setuid(OWNER)
        time.sleep(600)
    try:
        holder = os.fork()
        if not holder:
            os.setgid(GROUP)
            os.setuid(OTHER)
            lock_of(root, os.getpid() if who == "itself" else bystander)
            os.write(told, b"h")
            time.sleep(600)
        assert os.read(ready, 1) == b"h"
        assert as_user(OWNER, lambda: waits(root, told)) == 0
        assert os.read(ready, 1) == b"t"
    finally:
        for process in filter(None, (bystander, holder)):
            os.kill(process, 9)
            os.waitpid(process, 0)


@pytest.mark.usefixtures("soon")
def test_a_compile_of_the_same_user_is_waited_for(root: Path) -> None:
    assert as_user(OWNER, lambda: fill(root, 0o007)) == 0
    ready, told = os.pipe()
    holder = os.fork()
    if not holder:
        os.setgid(GROUP)
        os.setuid(OWNER)
        ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE, as each program that is started anew
        lock_of(root, os.getpid())
        os.write(told, b"h")
        time.sleep(0.5)  # five times as long as for others
        os._exit(0)
    try:
        assert os.read(ready, 1) == b"h"
        assert as_user(OWNER, lambda: waits(root, told)) == 0
        os.set_blocking(ready, False)
        with pytest.raises(BlockingIOError):
            os.read(ready, 1)
    finally:
        os.waitpid(holder, 0)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(("umask", "waited_for"), [(0o077, True), (0o007, False)])
def test_a_process_of_another_group_is_believed_in_a_private_store(root: Path, umask: int, waited_for: bool) -> None:
    """As one under newgrp, sg or sudo -g: the kernel does not tell its locks."""
    assert as_user(OWNER, lambda: fill(root, umask)) == 0
    ready, told = os.pipe()
    holder = os.fork()
    if not holder:
        os.setgroups([])
        os.setgid(GROUP + 1)
        os.setuid(OWNER)
        ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE, as each program that is started anew
        lock_of(root, os.getpid())
        os.write(told, b"h")
        time.sleep(1 if waited_for else 600)
        os._exit(0)
    try:
        assert os.read(ready, 1) == b"h"
        assert as_user(OWNER, lambda: waits(root, told)) == 0
        assert select.select([ready], [], [], 0)[0] == ([] if waited_for else [ready])
    finally:
        os.kill(holder, 9)
        os.waitpid(holder, 0)


def test_a_lock_that_does_not_come_free_is_counted_and_said(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    environ = {"XDG_RUNTIME_DIR": str(root.parent)}
    fill(root)
    for seconds_waited in (10.1, 10.2):
        conditions.tell_of_lock(Config(root), environ, seconds_waited)
    assert statistics.read(root).counted["lock_timeouts"] == 2
    assert capfd.readouterr().err.count(f"could not get a lock of store '{root}' within 10 s") == 1


def test_a_store_of_a_group_is_written_by_all_its_members(root: Path) -> None:
    assert as_user(OWNER, lambda: fill(root, 0o007)) == 0

    def work() -> None:
        store = LocalStore(root, max_bytes=0)
        assert not open_store(Config(root)).read_only
        assert store.get_action(KEY) == CONTENT
        store.put_action("f" * 64, CONTENT)
        with store.workdir() as directory:
            assert not directory.is_relative_to(root), "others could put links there"
            assert stat.S_IMODE(directory.stat().st_mode) == 0o700

    assert as_user(OTHER, work) == 0
    assert as_user(OWNER, lambda: LocalStore(root, max_bytes=0).get_action("f" * 64) == CONTENT) == 0
    assert as_user(OTHER, lambda: LocalStore(root, max_bytes=0).clear() > 0) == 0
    assert as_user(OWNER, lambda: LocalStore(root, max_bytes=0).get_action(KEY) is None) == 0


@pytest.mark.parametrize("how", ["in place", "by a file of their own"])
def test_an_entry_that_a_member_has_changed_is_absent_for_the_others(root: Path, how: str) -> None:
    assert as_user(OWNER, lambda: fill(root, 0o007)) == 0
    digest = blake3(CONTENT).hexdigest()

    def poison() -> None:
        entries = [
            path for path in (*root.glob("v2/actions/*"), *root.glob("v2/blobs/*")) if CONTENT in path.read_bytes()
        ]
        assert len(entries) == 2, "the action and the blob"
        for path in entries:
            wrong = path.read_bytes().replace(CONTENT, CONTENT.upper())
            if how != "in place":
                path.unlink()
            path.write_bytes(wrong)
            if how != "in place":
                path.chmod(0o660)

    def served() -> None:
        store = LocalStore(root, max_bytes=0)
        assert store.get_blob(digest) is None
        assert store.get_action(KEY) is None
        store.put_action(KEY, CONTENT)
        assert store.put_blob(CONTENT) == digest
        assert store.get_blob(digest) == store.get_action(KEY) == CONTENT

    assert as_user(OTHER, poison) == 0
    assert as_user(OWNER, served) == 0


def test_a_store_that_can_only_be_read_serves_and_says_why_it_keeps_nothing(root: Path) -> None:
    assert as_user(OWNER, lambda: fill(root, 0o022)) == 0

    def work() -> None:
        (found,) = conditions.of_store(Config(root))
        assert found.kind == "store_not_writable"
        store = open_store(Config(root))
        assert store.read_only
        assert store.get_action(KEY) == CONTENT
        store.put_action("f" * 64, CONTENT)
        with store.workdir() as directory:
            (directory / "a.o").write_bytes(CONTENT)
        assert store.size(beside=True).entries == 2
        assert statistics.read(root).compiles["hit"] == 1

    assert as_user(OTHER, work) == 0
    assert not (root / "v2/actions/ff").exists()


def test_root_leaves_nothing_of_its_own_in_the_store_of_a_user(root: Path) -> None:
    assert as_user(OWNER, lambda: fill(root)) == 0
    fill(root)
    store = LocalStore(root, max_bytes=0)
    store.put_action("f" * 64, CONTENT)
    with store.workdir() as directory:
        assert not directory.is_relative_to(root)
    config.write("max_size", "1G", {}, root / "hipcache.yaml", STORE)
    assert {path.lstat().st_uid for path in root.rglob("*")} == {OWNER}
    assert as_user(OWNER, lambda: LocalStore(root, max_bytes=0).get_action("f" * 64) == CONTENT) == 0


@pytest.mark.parametrize("place", ["of a user", "its own"])
def test_root_that_may_give_no_file_away_sets_the_stores_settings(
    place: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a user namespace, without the capability, or on a server that squashes root."""
    asked = []

    def refuse(*words: object) -> None:
        asked.append(words)
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    file = (root.parent if place == "of a user" else tmp_path) / "hipcache.yaml"
    config.write("max_size", "1G", {}, file, STORE)
    assert "1G" in file.read_text()
    assert len(asked) == (place == "of a user")
