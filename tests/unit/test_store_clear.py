"""`clear` where the disk is full, and where the store's directories cannot be moved away."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import private_mounts
import pytest
from hipcache.base.errors import StoreError
from hipcache.store import upkeep
from hipcache.store.local import LocalStore
from local_store import CONTENT, KEY, files, root, store

__all__ = ["root", "store"]

ALWAYS = ["v2/CACHEDIR.TAG", "v2/ledger", "v2/locks"]


def filled(root: Path) -> LocalStore:
    store = LocalStore(root, max_bytes=0)
    store.put_action(KEY, CONTENT)
    store.put_blob(CONTENT)
    store.notes().put("object/command", b"note")
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
        gone = store.root / f"v2/tmp/gone-{directory}"
        (store.root / "v2" / directory).rename(gone)
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


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Path]:
    """A directory to mount something in."""
    at = tmp_path / "mounted"
    at.mkdir()
    yield at
    private_mounts.detach(at)


def test_a_store_of_a_lower_layer_is_cleared(tmp_path: Path, mount: Path) -> None:
    """As in a container whose image has a store: its directories cannot be moved."""
    layers = [tmp_path / name for name in ("lower", "upper", "work")]
    for layer in layers:
        layer.mkdir()
    left = filled(layers[0] / "store").root / "v2/tmp/work-dead/deep/er"
    left.mkdir(parents=True)
    (left / "file").write_bytes(CONTENT)
    os.utime(left.parent.parent, (1, 1))
    if not private_mounts.overlay(*layers, mount):
        pytest.skip("no overlays can be mounted here")
    cleared(LocalStore(mount / "store", max_bytes=0))
    assert not (mount / "store/v2/tmp/work-dead").exists()


@pytest.mark.parametrize("part", ["tmp", "blobs", "actions", "history"])
def test_a_store_with_a_mount_inside_is_cleared(root: Path, store: LocalStore, tmp_path: Path, part: str) -> None:
    filled(root)
    at = root / "v2" / part
    if not private_mounts.bind(at, at):
        pytest.skip("only root can mount")
    try:
        assert store.clear() > len(CONTENT)
        assert files(root) == ALWAYS
        assert store.size().entries == 0
    finally:
        private_mounts.detach(at)
