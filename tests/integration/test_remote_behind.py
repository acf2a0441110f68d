"""What the storage helper writes only after it has answered: what came with whole compiles, and serves none of them."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from hipcache.base.errors import StoreError
from hipcache.base.keys import digest_bytes
from hipcache.remote.backend import blob_of
from hipcache.remote.envelope import Envelope
from hipcache.remote.helper import transfer as module
from hipcache.remote.helper.transfer import Arrivals, Backlog
from hipcache.remote.invocation import Invocation, Manifest
from hipcache.store.local import LocalStore
from remote_lab import SECONDS

KEY, OTHER = "ab" * 32, "cd" * 32
NEVER = 3600.0
RECORD, OBJECT = b"a direct record", b"an object"
MANIFEST = Manifest((Invocation(("clang",), digest_bytes(RECORD), (digest_bytes(OBJECT),), ()),)).pack()


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store", max_bytes=1 << 30)


def come(*contents: bytes) -> tuple[Envelope, dict[str, bytes]]:
    """A manifest, and these of its contents."""
    return (
        Envelope(KEY, MANIFEST, {digest_bytes(one): blob_of(one) for one in (RECORD, OBJECT)}),
        {digest_bytes(one): one for one in contents},
    )


def test_only_what_serves_a_compile_is_written_at_once(store: LocalStore) -> None:
    later = Backlog(store, NEVER)
    envelope, contents = come(RECORD, OBJECT)
    assert Arrivals(store, contents, later).keep([envelope]) == [KEY]
    assert store.get_blob(digest_bytes(OBJECT)) == OBJECT
    assert (store.get_action(KEY), store.get_blob(digest_bytes(RECORD))) == (None, None)
    assert (later.record(KEY), later.content(digest_bytes(RECORD))) == (MANIFEST, RECORD)
    assert later.size(digest_bytes(RECORD)) == len(RECORD)
    later.write()
    assert (store.get_action(KEY), store.get_blob(digest_bytes(RECORD))) == (MANIFEST, RECORD)
    assert (later.record(KEY), later.size(digest_bytes(RECORD))) == (MANIFEST, len(RECORD))


def test_a_compile_that_asks_by_itself_finds_all_in_the_store(store: LocalStore) -> None:
    envelope, contents = come(RECORD, OBJECT)
    assert Arrivals(store, contents).keep([envelope]) == [KEY]
    assert (store.get_action(KEY), store.get_blob(digest_bytes(RECORD))) == (MANIFEST, RECORD)


@pytest.mark.parametrize("lacking", [RECORD, OBJECT])
def test_a_manifest_without_one_of_its_contents_is_not_kept(store: LocalStore, lacking: bytes) -> None:
    later = Backlog(store, NEVER)
    envelope, contents = come(*({RECORD, OBJECT} - {lacking}))
    assert Arrivals(store, contents, later).keep([envelope]) == []
    assert later.record(KEY) is None


def test_a_content_that_a_compile_needs_is_never_left_for_later(store: LocalStore) -> None:
    """Whatever a manifest says."""
    later, name = Backlog(store, NEVER), digest_bytes(OBJECT)
    manifest = Manifest((Invocation(("clang",), name, (name,), ()),)).pack()
    Arrivals(store, {name: OBJECT}, later).keep([Envelope(KEY, manifest, {name: blob_of(OBJECT)})])
    assert store.get_blob(name) == OBJECT


def test_what_is_left_for_later_is_written_after_a_moment(store: LocalStore) -> None:
    Backlog(store, 0.0).keep({KEY: MANIFEST}, {digest_bytes(RECORD): RECORD})
    end = time.monotonic() + SECONDS
    while store.get_action(KEY) is None:
        assert time.monotonic() < end, "it is not written"
        time.sleep(0.01)
    assert store.get_blob(digest_bytes(RECORD)) == RECORD


def test_what_comes_while_others_are_written_is_written_too(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    later, put = Backlog(store, 0.0), store.put_blobs

    def slow(contents: Iterable[bytes]) -> list[str]:
        monkeypatch.setattr(store, "put_blobs", put)
        later.keep({OTHER: MANIFEST}, {})
        return put(contents)

    monkeypatch.setattr(store, "put_blobs", slow)
    later.keep({KEY: MANIFEST}, {})
    end = time.monotonic() + SECONDS
    while store.get_action(OTHER) is None:
        assert time.monotonic() < end, "it is not written"
        time.sleep(0.01)
    assert store.get_action(KEY) == MANIFEST


def test_a_manifest_that_a_compile_has_added_to_stays(store: LocalStore) -> None:
    later = Backlog(store, NEVER)
    later.keep({KEY: MANIFEST}, {})
    store.put_action(KEY, b"a newer one")
    later.write()
    assert store.get_action(KEY) == b"a newer one"


def test_much_is_written_at_once(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_HELD", len(MANIFEST) - 1)
    Backlog(store, NEVER).keep({KEY: MANIFEST}, {})
    assert store.get_action(KEY) == MANIFEST


def test_a_full_disk_is_no_fault(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise StoreError("cannot store", "make room")

    later = Backlog(store, NEVER)
    later.keep({KEY: MANIFEST}, {digest_bytes(RECORD): RECORD})
    monkeypatch.setattr(store, "put_blobs", full)
    later.write()
    assert (store.get_action(KEY), later.record(KEY)) == (None, None)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_the_disk_loses_nothing(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held is written with what comes next."""
    later, put, failed = Backlog(store, 0.0), store.put_blobs, threading.Event()

    def broken(contents: Iterable[bytes]) -> list[str]:
        failed.set()
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(store, "put_blobs", broken)
    later.keep({KEY: MANIFEST}, {digest_bytes(RECORD): RECORD})
    assert failed.wait(SECONDS)
    monkeypatch.setattr(store, "put_blobs", put)
    end = time.monotonic() + SECONDS
    while store.get_action(KEY) is None or store.get_action(OTHER) is None:
        assert time.monotonic() < end, "it is not written"
        time.sleep(0.01)
        later.keep({OTHER: MANIFEST}, {})
    assert store.get_blob(digest_bytes(RECORD)) == RECORD
