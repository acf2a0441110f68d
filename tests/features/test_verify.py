"""`hipcache verify`: every entry of a store is checked, and what is damaged goes; nothing else does."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hip import ARCHS, LAUNCHER, Lab, in_terminal, only_19
from hipcache.direct.record import NO_STATE, DirectRecord
from hipcache.store.layout import blob_name
from hipcache.store.local import LocalStore
from hipcache.verify import verb
from poison import record

pytestmark = pytest.mark.archs(1)

KEY = "0123456789abcdef" * 4
OTHER = "fedcba9876543210" * 4


@pytest.fixture
def store(lab: Lab) -> LocalStore:
    return LocalStore(lab.store, max_bytes=0)


def blob_path(store: LocalStore, digest: str) -> Path:
    return Path(store.confined.path(blob_name(digest)))


def verify(lab: Lab, **env: str) -> tuple[int, dict[str, str]]:
    """(exit status, why by name) of what is damaged."""
    ended = lab.hipcache("verify", "--json", env=env)
    assert ended.err == b""
    return ended.status, {one["name"]: one["why"] for one in json.loads(ended.out)["damaged"]}


@only_19
def test_a_store_that_was_used_is_whole(lab: Lab) -> None:
    lab.write(
        "k.hip", '#include "hip_in_short.hpp"\n__global__ void kernel(int* p) { for (;;) p[0]++; }\nint unused_;\n'
    )
    for flags in (("-MD",), ("-Wall", "-gsplit-dwarf", "-g"), ("-fgpu-rdc",), ("-cuid=6eed", ARCHS[0])):
        lab.warm(*flags)
    ended = lab.hipcache("verify")
    assert (ended.status, ended.err) == (0, b"")
    words = ended.out.decode().split()
    assert words[-3:] == ["checked,", "none", "damaged"]
    assert int(words[0]) > 10
    assert int(words[3]) > 10
    assert lab.compile("-MD").outcome == "hit", "checking removes nothing"


@pytest.mark.files
@only_19
def test_checking_is_no_use(lab: Lab, store: LocalStore) -> None:
    """What is used least must still be the first to go."""
    path = blob_path(store, store.put_blob(b"old"))
    os.utime(path, (1_600_000_000, 1_600_000_000))
    assert verify(lab) == (0, {})
    assert path.stat().st_mtime == 1_600_000_000


@pytest.mark.files
@only_19
def test_damage_is_told_removed_and_no_longer_counted(lab: Lab, store: LocalStore) -> None:
    good, bad = store.put_blob(b"good"), store.put_blob(b"bad")
    blob_path(store, bad).write_bytes(b"bid")
    store.put_action(KEY, record(good))
    store.put_action(OTHER, record(bad))
    status, damaged = verify(lab)
    assert status == 1
    assert damaged == {
        f"blobs/{bad}": "its content does not have its digest",
        f"actions/{OTHER}": f"it names a blob that is not there: {bad}",
    }
    assert store.get_blob(good) == b"good"
    assert store.get_action(KEY)
    assert not blob_path(store, bad).exists()
    assert store.size().entries == 2
    assert verify(lab) == (0, {})


@pytest.mark.files
@only_19
def test_a_record_whose_contents_were_evicted_is_no_damage(lab: Lab, store: LocalStore) -> None:
    gone = store.put_blob(b"gone")
    store.put_action(KEY, record(gone))
    blob_path(store, gone).unlink()
    ended = lab.hipcache("verify", env={"HIPCACHE_READONLY": "1"})
    assert (ended.status, store.get_action(KEY)) == (0, record(gone))
    ended = lab.hipcache("verify")
    assert ended.status == 0
    assert ended.out.decode().splitlines() == [
        "0 blobs and 1 record checked, none damaged",
        "1 record whose contents were evicted: removed.",
    ]
    assert store.get_action(KEY) is None


@pytest.mark.files
@only_19
def test_people_are_told_what_and_why(lab: Lab, store: LocalStore) -> None:
    bad = store.put_blob(b"bad")
    blob_path(store, bad).write_bytes(b"")
    ended = lab.hipcache("verify")
    assert ended.out.decode().splitlines() == [
        f"blob 'blobs/{bad}': its content does not have its digest; removed",
        "1 blob and 0 records checked, 1 removed",
    ]


@only_19
@pytest.mark.parametrize(
    "payload",
    [b"", b"[", b"[1]", b"{}", b'{"code": 1}', b"x\x9cnoise", b"no record of a whole compile", b"{" * 100_000],
    ids=lambda payload: repr(payload[:10]),
)
def test_a_record_that_does_not_read_goes(lab: Lab, store: LocalStore, payload: bytes) -> None:
    store.put_action(KEY, payload)
    status, damaged = verify(lab)
    assert (status, len(damaged)) == (1, 1)
    assert "it does not read" in next(iter(damaged.values()))
    assert store.get_action(KEY) is None


@pytest.mark.parametrize("first", [b"[", b"{", b"x"])
def test_a_whole_compile_is_known_whatever_its_digest_begins_with(tmp_path: Path, first: bytes) -> None:
    """The digest of the variables stands first in its record, where others have a brace, a bracket or zlib's mark."""
    store = LocalStore(tmp_path / "store", max_bytes=0)
    named = store.put_blob(b"list")
    digest = (first + bytes(31)).hex()
    empty = ((), (), b"", b"")
    whole = DirectRecord(
        digest, NO_STATE, 2.0, *empty, ("history/a/b",), ((True, KEY),), (), b"", NO_STATE, named, named, ()
    )
    store.put_action(KEY, whole.pack())
    checked = verb.check(store)
    assert (checked.records, checked.damaged) == (1, [])
    assert store.get_action(KEY) == whole.pack()


@pytest.mark.files
@only_19
def test_nothing_outside_is_touched(lab: Lab, store: LocalStore, tmp_path: Path) -> None:
    good = store.put_blob(b"good")
    outside = tmp_path / "outside"
    (outside / "directory").mkdir(parents=True)
    for name in ("f" * 62, "directory/file"):
        (outside / name).write_text("the user's")
    base = lab.store / "v2"
    (base / "blobs" / "zz").symlink_to(outside)
    (base / "blobs" / "0a").symlink_to(outside)
    (base / "blobs" / ("a" * 64)).symlink_to(outside / "directory/file")
    (base / "blobs" / ("b" * 64)).mkdir()
    (base / "blobs" / ("b" * 64) / "inner").symlink_to(outside / "directory")
    os.mkfifo(base / "blobs" / ("c" * 64))
    (base / "actions" / "stray").write_text("stray")
    status, damaged = verify(lab)
    assert status == 1
    assert len(damaged) == 6
    assert "a symbolic link is in the place of an entry" in damaged.values()
    assert "a FIFO is in the place of an entry" in damaged.values()
    assert sorted(path.name for path in outside.rglob("*")) == sorted(["directory", "file", "f" * 62])
    assert (outside / "directory/file").read_text() == "the user's"
    assert [path.name for path in (base / "blobs").iterdir()] == [good]
    assert verify(lab) == (0, {})


@pytest.mark.files
@only_19
def test_a_tree_that_is_a_link_is_not_entered(lab: Lab, store: LocalStore, tmp_path: Path) -> None:
    store.put_blob(b"good")
    (lab.store / "v2" / "blobs").rename(tmp_path / "blobs")
    (lab.store / "v2" / "blobs").symlink_to(tmp_path / "blobs")
    (tmp_path / "blobs" / "stray").write_text("stray")
    assert verify(lab) == (0, {})
    assert (tmp_path / "blobs" / "stray").exists()


@pytest.mark.files
@only_19
def test_a_read_only_store_is_told_of_and_left(lab: Lab, store: LocalStore) -> None:
    bad = store.put_blob(b"bad")
    blob_path(store, bad).write_bytes(b"")
    ended = lab.hipcache("verify", env={"HIPCACHE_READONLY": "1"})
    assert ended.status == 1
    assert b"1 damaged entry kept" in ended.out
    assert blob_path(store, bad).exists()


@only_19
def test_a_store_that_is_not_there_is_whole(lab: Lab) -> None:
    assert verify(lab) == (0, {})
    assert lab.hipcache("verify").out == f"nothing to check: there is no store in '{lab.store}' yet\n".encode()
    assert not lab.store.exists()


@only_19
@pytest.mark.parametrize("kind", ["a link", "a file"])
def test_a_store_that_cannot_be_read_is_not_whole(lab: Lab, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "store"
    place.mkdir()
    (place / "v2").symlink_to(lab.store) if kind == "a link" else (place / "v2").touch()
    ended = lab.hipcache("verify", env={"HIPCACHE_DIR": str(place)})
    assert ended.status == 1
    assert f"cannot read '{place}/v2': Not a directory\n  a file or link is where".encode() in ended.err


def test_a_terminal_sees_how_far_it_is(lab: Lab, store: LocalStore) -> None:
    store.put_blob(b"good")
    status, shown = in_terminal([*LAUNCHER, "verify"], lab.root, lab.environ)
    assert status == 0
    assert b"entries checked: 1" in shown
