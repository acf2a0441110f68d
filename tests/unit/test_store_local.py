"""The local store as a directory: its layout and permissions, and how it is only read."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from blake3 import blake3
from hipcache.base.errors import StoreError
from hipcache.store.local import LocalStore
from hipcache.store.upkeep import StoreEntry
from local_store import CONTENT, KEY, files, root, store

__all__ = ["root", "store"]

# Layout


def test_the_first_write_makes_the_directory(root: Path, store: LocalStore) -> None:
    assert store.get_action(KEY) is None
    assert store.size().entries == 0
    assert not root.exists()
    store.put_action(KEY, CONTENT)
    digest = store.put_blob(CONTENT)
    assert files(root) == sorted(
        [
            f"v2/actions/{KEY}",
            f"v2/blobs/{digest}",
            "v2/CACHEDIR.TAG",
            "v2/ledger",
            "v2/locks",
        ]
    )


def test_a_lock_and_a_workdir_also_make_the_directory(root: Path, store: LocalStore) -> None:
    with store.lock(KEY) as waited:
        assert waited is False
    assert root.exists()
    other = LocalStore(root.with_name("other"), max_bytes=0)
    with other.workdir() as directory:
        assert directory.parent == other.root / "v2" / "tmp"


def test_backup_programs_skip_the_store_and_not_what_is_beside_it(root: Path, store: LocalStore) -> None:
    store.put_blob(CONTENT)
    assert (root / "v2" / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    assert not (root / "CACHEDIR.TAG").exists()


def opened(store: LocalStore, digest: str, known: str = "") -> tuple[bytes, str] | None:
    found = store.open_blob(digest, known)
    if found is None:
        return None
    with open(found[0], "rb") as file:
        return file.read(), found[1]


def test_a_blob_that_is_opened_is_checked_unless_it_is_known(root: Path, store: LocalStore) -> None:
    digest = store.put_blob(CONTENT)
    path = root / "v2" / "blobs" / digest
    first = opened(store, digest)
    assert first and first[0] == CONTENT
    assert opened(store, digest, first[1]) == first
    times = path.stat()
    path.write_bytes(bytes(reversed(CONTENT)))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert opened(store, digest, first[1]) is None
    assert not path.exists()
    assert opened(store, digest) is None


@pytest.mark.parametrize(("age", "noted"), [(1800, False), (7200, True)])
def test_the_use_of_a_blob_that_is_opened_is_noted_once_an_hour(root: Path, age: int, noted: bool) -> None:
    store = LocalStore(root, max_bytes=0, clock=lambda: 1_700_000_000)
    digest = store.put_blob(CONTENT)
    path = root / "v2" / "blobs" / digest
    found = opened(store, digest)
    assert found
    os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))
    moved = path.stat()
    known = f"{moved.st_dev} {moved.st_ino} {moved.st_size} {moved.st_mtime_ns} {moved.st_ctime_ns}"
    again = opened(store, digest, known)
    assert again and (again[1] != known) == (path.stat().st_mtime == 1_700_000_000) == noted


def test_a_blob_that_others_can_write_is_only_copied(root: Path, store: LocalStore) -> None:
    digest = store.put_blob(CONTENT)
    (root / "v2" / "blobs" / digest).chmod(0o664)
    assert opened(store, digest) is None
    assert store.get_blob(digest) == CONTENT


def test_a_blob_is_stored_as_it_is(root: Path, store: LocalStore) -> None:
    """So that the file system can share its blocks with the build tree."""
    digest = store.put_blob(CONTENT)
    assert (root / "v2" / "blobs" / digest).read_bytes() == CONTENT


def modes(root: Path) -> dict[str, int]:
    """Of the kinds of directories and files that a store has."""
    names = ["v2", "v2/actions", f"v2/actions/{KEY}", "v2/tmp", "v2/ledger", "v2/locks"]
    return {name: stat.S_IMODE((root / name).stat().st_mode) for name in ("", *names)}


def as_open_as(directory: int, file: int, lock: int) -> list[int]:
    return [directory, directory, directory, file, directory, lock, lock]


def use(store: LocalStore, mask: int) -> None:
    """With `mask` as the umask of the process."""
    before = os.umask(mask)
    try:
        store.put_action(KEY, CONTENT)
        with store.lock(KEY):
            pass
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_a_store_is_private_whatever_the_umask_of_the_process(root: Path, store: LocalStore, mask: int) -> None:
    use(store, mask)
    assert list(modes(root).values()) == as_open_as(0o700, 0o600, 0o600)


@pytest.mark.parametrize(
    ("umask", "directory", "file", "lock"),
    [
        (0o002, 0o775, 0o664, 0o660),
        (0o007, 0o770, 0o660, 0o660),
        (0o022, 0o755, 0o644, 0o600),
        (0, 0o777, 0o666, 0o666),
    ],
)
def test_a_store_is_as_open_as_its_setting_and_readers_get_no_lock_file(
    root: Path, umask: int, directory: int, file: int, lock: int
) -> None:
    use(LocalStore(root, max_bytes=0, umask=umask), 0o077)
    assert list(modes(root).values()) == as_open_as(directory, file, lock)


def test_a_directory_with_the_setgid_bit_makes_a_store_of_its_group(root: Path, store: LocalStore) -> None:
    root.mkdir(parents=True)
    root.chmod(0o2770)
    use(store, 0o022)
    assert list(modes(root).values()) == as_open_as(0o2770, 0o660, 0o660)


def test_a_store_that_is_open_already_stays_so_but_for_its_locks(root: Path, store: LocalStore) -> None:
    """As earlier versions made it, under a umask of 022."""
    use(store, 0o022)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    store.put_action("f" * 64, CONTENT)
    use(store, 0o022)
    assert list(modes(root).values()) == as_open_as(0o755, 0o644, 0o600)
    assert stat.S_IMODE((root / "v2/actions" / ("f" * 64)).stat().st_mode) == 0o644


def test_a_store_deleted_while_in_use_is_made_again(root: Path, store: LocalStore) -> None:
    store.put_action(KEY, CONTENT)
    with store.workdir(), store.lock(KEY):
        subprocess.run(["rm", "-rf", root], check=True)
        assert store.get_action(KEY) is None
        store.put_action(KEY, CONTENT)
    assert store.get_action(KEY) == CONTENT
    assert store.size().entries == 1


# Only reading


@pytest.fixture
def reader(store: LocalStore) -> LocalStore:
    store.put_action(KEY, CONTENT)
    store.put_blob(CONTENT)
    return LocalStore(store.root, max_bytes=1, read_only=True)


def snapshot(root: Path) -> dict[str, tuple[bytes, int]]:
    return {name: ((root / name).read_bytes(), (root / name).stat().st_mtime_ns) for name in files(root)}


def test_a_read_only_store_gives_what_is_there(reader: LocalStore, tmp_path: Path) -> None:
    digest = blake3(CONTENT).hexdigest()
    assert reader.get_action(KEY) == CONTENT
    assert reader.has_blob(digest)
    assert reader.get_blob(digest) == CONTENT
    assert reader.copy_blob(digest, tmp_path / "out.o")
    assert reader.size().entries == 2


def test_a_read_only_store_changes_nothing(reader: LocalStore, tmp_path: Path) -> None:
    before = snapshot(reader.root)
    reader.get_action(KEY)
    reader.copy_blob(blake3(CONTENT).hexdigest(), tmp_path / "out.o")
    reader.put_action(KEY, b"new")
    reader.remove_action(KEY)
    assert reader.put_blob(b"new") == blake3(b"new").hexdigest()
    assert not reader.has_blob(blake3(b"new").hexdigest())
    with reader.lock(KEY) as waited, reader.lock(KEY) as waited_again:
        assert (waited, waited_again) == (False, False)
    for call in (reader.collect, reader.clear):
        with pytest.raises(StoreError, match="read-only"):
            call()
    assert snapshot(reader.root) == before


def test_a_read_only_store_works_in_a_private_directory_elsewhere(reader: LocalStore) -> None:
    with reader.workdir() as directory:
        assert directory.parent == Path(tempfile.gettempdir())
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert not directory.exists()


def test_a_read_only_store_that_does_not_exist_is_empty_and_stays_away(root: Path) -> None:
    reader = LocalStore(root, max_bytes=0, read_only=True)
    assert reader.get_action(KEY) is None
    reader.put_action(KEY, CONTENT)
    reader.put_blob(CONTENT)
    with reader.lock(KEY), reader.workdir():
        pass
    assert reader.size().entries == 0
    assert not root.exists()


def test_a_count_does_not_add_what_takes_the_place_of_an_entry_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path / "store", max_bytes=0)
    for name in "ab":
        store.put_action(name * 64, b"small")
    listed = store._upkeep.entries

    def entries() -> list[StoreEntry]:
        found = list(listed())
        store.put_action("a" * 64, b"larger" * 4000)
        store.put_action("b" * 64, b"small")
        return found

    monkeypatch.setattr(store._upkeep, "entries", entries)
    store._upkeep.count()
    monkeypatch.undo()
    kept = list(store._upkeep.entries())
    assert (store.size().entries, store.size().bytes) == (len(kept), sum(entry.size for entry in kept))
