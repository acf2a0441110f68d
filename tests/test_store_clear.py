"""`clear` where the disk is full, and where the store's directories cannot be moved away."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hipcache.errors import StoreError
from hipcache.store import upkeep
from hipcache.store.local import LocalStore
from local_store import CONTENT, KEY, files, root, store

__all__ = ["root", "store"]

ALWAYS = ["v1/CACHEDIR.TAG", "v1/ledger", "v1/locks"]


def filled(root: Path) -> LocalStore:
    store = LocalStore(root, max_bytes=0)
    store.put_action(KEY, CONTENT)
    store.put_blob(CONTENT)
    store.notes("history").put("object/command", b"note")
    return store


def cleared(store: LocalStore) -> None:
    """Clear it, and see that it is empty and can be used."""
    assert store.clear() > len(CONTENT)
    assert files(store.root) == ALWAYS
    assert store.size().entries == 0
    store.put_action(KEY, CONTENT)
    assert store.get_action(KEY) == CONTENT
    assert store.size().entries == 1


@pytest.mark.parametrize("small_disk", ["1m"], indirect=True)
def test_a_disk_without_room_for_a_directory_is_cleared(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,nr_inodes=64", small_disk], check=True)
    store = filled(small_disk / "store")
    with suppress(OSError):
        for number in range(64):
            (small_disk / str(number)).touch()
    cleared(store)


@pytest.mark.parametrize("small_disk", ["1m"], indirect=True)
def test_what_an_earlier_version_moved_away_on_a_full_disk_is_removed(small_disk: Path) -> None:
    """It could not make the directories anew, and left them out."""
    subprocess.run(["mount", "-o", "remount,nr_inodes=64", small_disk], check=True)
    store = filled(small_disk / "store")
    for directory in ("actions", "blobs", "history"):
        gone = store.root / f"v1/tmp/gone-{directory}"
        (store.root / "v1" / directory).rename(gone)
        os.utime(gone, (1, 1))
    with suppress(OSError):
        for number in range(64):
            (small_disk / str(number)).touch()
    cleared(store)


def test_where_a_directory_cannot_be_made_anew_nothing_stays(
    root: Path, store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(root)
    monkeypatch.setattr(upkeep, "make", refuse)
    with pytest.raises(StoreError, match="No space left"):
        store.clear()
    assert files(root) == ALWAYS


def refuse(*_: object) -> None:
    raise OSError(28, os.strerror(28))
