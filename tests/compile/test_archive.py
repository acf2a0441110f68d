"""`hipcache export` and `hipcache import`: what a store holds goes into another one."""

from __future__ import annotations

import builtins
import os
import tarfile
import zlib
from pathlib import Path

import pytest
from archive_shop import KEY, OTHER, THIRD, UNIT, Shop, entry, names, record, shop, tar
from hip import HIT, Lab, only_19
from hipcache.cache.entries import pack, unpack
from hipcache.cli import export
from hipcache.store import archive

__all__ = ["shop"]

pytestmark = pytest.mark.archs(1)

OLD = 1_600_000_000


@pytest.mark.parametrize("suffix", [".tar.zst", ".tar.gz"])
def test_what_is_exported_is_imported(shop: Shop, suffix: str) -> None:
    digest = shop.here.put_blob(b"code")
    shop.here.put_action(KEY, UNIT)
    file = shop.root / f"a{suffix}"
    assert shop(shop.here, "export", file) == 0, shop.err
    assert shop.out.startswith("2 entries, ")
    assert shop(shop.there, "import", file) == 0, shop.err
    assert shop.out == "2 entries read: 2 new, 0 already there\n"
    assert (shop.there.get_blob(digest), shop.there.get_action(KEY)) == (b"code", UNIT)
    assert shop.there.size().entries == 1, "the ledger has counted them: one pack"
    assert shop(shop.there, "import", file) == 0
    assert shop.out == "2 entries read: 0 new, 2 already there\n"


def test_everybodys_tools_can_look_into_it_and_it_is_the_same_each_time(shop: Shop) -> None:
    shop.here.put_action(KEY, UNIT)
    digest = shop.here.put_blob(b"code")
    shop(shop.here, "export", shop.file)
    with tarfile.open(shop.file) as made:
        assert made.getnames() == [f"v1/blobs/{digest[:2]}/{digest[2:]}", f"v1/actions/{KEY[:2]}/{KEY[2:]}"]
        assert {(one.uid, one.gid, one.mode) for one in made} == {(0, 0, 0o644)}
    first = shop.file.read_bytes()
    shop(shop.here, "export", shop.file)
    assert shop.file.read_bytes() == first


def test_since_a_mark_has_what_was_used_and_the_contents_that_it_names(shop: Shop) -> None:
    old, named = shop.here.put_blob(b"old"), shop.here.put_blob(b"named")
    shop.here.put_action(OTHER, UNIT)
    for path in (shop.here.root / "v2").rglob("*"):
        os.utime(path, (OLD, OLD))
    mark = shop.root / "mark"
    mark.touch()
    os.utime(mark, (OLD + 3601, OLD + 3601))
    shop.here.put_action(KEY, b'{"outputs":["%s"],"passing":[],"text":"","seconds":1}' % named.encode())
    assert shop(shop.here, "export", "--since", mark, shop.file) == 0
    assert names(shop.file) == [f"blobs {named}", f"actions {KEY}"]
    assert f"blobs {old}" not in names(shop.file)
    assert shop(shop.here, "export", "--since", shop.root / "none", shop.file) == 1
    assert "write it before the build" in shop.err


def test_an_entry_is_as_old_as_it_was_and_never_of_the_future(shop: Shop) -> None:
    digests = [shop.here.put_blob(content) for content in (b"old", b"future")]
    for digest, time in zip(digests, (OLD, 4_000_000_000), strict=True):
        os.utime(shop.here.root / "v2/blobs" / digest, (time, time))
    shop(shop.here, "export", shop.file)
    shop(shop.there, "import", shop.file)
    old, future = (shop.there.names("blobs")[digest] / 1e9 for digest in digests)
    assert old == OLD
    assert future <= shop.file.stat().st_mtime + 60


@pytest.mark.parametrize("time", [-300_000_000, 10_000_000_000])
def test_an_entry_of_a_time_that_no_header_holds_is_exported(shop: Shop, time: int) -> None:
    digest = shop.here.put_blob(b"strange")
    os.utime(shop.here.root / "v2/blobs" / digest, (time, time))
    assert shop(shop.here, "export", shop.file) == 0
    assert shop(shop.there, "import", shop.file) == 0
    assert shop.there.get_blob(digest) == b"strange"


def test_answers_that_name_programs_stay_behind(shop: Shop) -> None:
    answer = zlib.compress(b'{"text": "/bin/sh", "looked": []}', 1)
    shop.here.put_action(KEY, answer, own=True)
    shop(shop.here, "export", shop.file)
    assert names(shop.file) == []
    # In another form, which the engine would unpack as well.
    packer = zlib.compressobj(1, zlib.DEFLATED, 9)
    small = packer.compress(b'{"text": "/bin/sh", "looked": []}') + packer.flush()
    assert small[:1] != b"x"
    tar(shop.file, record(KEY, answer), record(OTHER, small), record(THIRD, small + b"more"))
    assert shop(shop.there, "import", shop.file) == 0
    assert shop.out == "3 entries read: 0 new, 0 already there, 3 left out\n"
    assert all(shop.there.get_action(key, own=True) is None for key in (KEY, OTHER, THIRD))


def test_lists_of_what_a_pass_came_to_are_merged_with_those_that_are_there(shop: Shop) -> None:
    """Two machines have met other headers."""
    both, only = entry(OTHER), entry(THIRD)
    shop.here.put_action(KEY, pack([only, both]))
    shop.there.put_action(KEY, pack([both]))
    shop(shop.here, "export", shop.file)
    assert shop(shop.there, "import", shop.file) == 0
    assert shop.out == "1 entry read: 1 new, 0 already there\n"
    assert unpack(shop.there.get_action(KEY)) == [both, only]
    shop(shop.there, "import", shop.file)
    assert shop.out == "1 entry read: 0 new, 1 already there\n"


def test_a_list_that_is_nested_too_deeply_is_no_list(shop: Shop) -> None:
    shop.there.put_action(KEY, pack([entry(OTHER)]))
    tar(shop.file, record(KEY, b"[" * 200_000))
    assert shop(shop.there, "import", shop.file) == 0
    assert unpack(shop.there.get_action(KEY)) == [entry(OTHER)]


# Of the command


def test_a_store_that_is_only_read_takes_nothing_in(shop: Shop) -> None:
    shop(shop.here, "export", shop.file)
    assert shop(shop.there, "import", shop.file, HIPCACHE_READONLY="1") == 1
    assert "the store is read-only\n  unset HIPCACHE_READONLY" in shop.err


def test_the_name_tells_how_it_is_packed(shop: Shop) -> None:
    assert shop(shop.here, "export", shop.root / "a.zip") == 1
    assert "name it FILE.tar.zst or FILE.tar.gz" in shop.err


def test_without_zstd_the_error_names_both_ways(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: object) -> object:
        if name == "zstandard":
            raise ImportError(name)
        return real(name, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    assert shop(shop.here, "export", shop.root / "a.tar.zst") == 1
    assert "pip install zstandard" in shop.err
    assert "a.tar.gz" in shop.err
    assert [path.name for path in shop.root.iterdir()] == []


def test_a_failed_export_leaves_the_old_file(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> object:
        yield archive.ArchiveEntry("blobs", KEY, 1, b"x")
        raise OSError(28, "No space left on device")

    shop.file.write_bytes(b"before")
    monkeypatch.setattr(export, "entries", failing)
    assert shop(shop.here, "export", shop.file) == 1
    assert "No space left" in shop.err
    assert shop.file.read_bytes() == b"before"
    assert [path.name for path in shop.root.iterdir()] == ["a.tar.gz"]


def test_an_export_that_cannot_be_written_names_the_file_that_was_asked_for(shop: Shop) -> None:
    assert shop(shop.here, "export", shop.root / "none/a.tar.gz") == 1
    assert shop.err.splitlines()[0] == f"hipcache: No such file or directory: '{shop.root}/none/a.tar.gz'"


def test_progress_is_shown_on_a_terminal_only(shop: Shop) -> None:
    shop.here.put_blob(b"code")
    assert shop(shop.here, "export", shop.file) == 0
    assert shop.err == ""
    assert shop(shop.here, "export", shop.file, terminal=True) == 0
    assert "entries written: 1" in shop.err


@only_19
def test_a_build_is_served_from_an_imported_store(lab: Lab, tmp_path: Path) -> None:
    lab.warm("-MD")
    file = tmp_path / "a.tar.zst"
    assert lab.hipcache("export", file).status == 0
    other = {"HIPCACHE_DIR": str(tmp_path / "other")}
    assert lab.hipcache("import", file, env=other).status == 0
    assert len(list((tmp_path / "other/v2/packs").iterdir())) == 2, "the compile's, and the index"
    assert not list((tmp_path / "other/v2/blobs").iterdir())
    lab.environ.update(other)
    lab.count_anew()
    assert lab.compile("-MD").outcome == HIT
    assert lab.compile("-MD", env={"HIPCACHE_LOG": str(tmp_path / "log")}).outcome == HIT, "by the engine, too"
    assert lab.hipcache("verify").status == 0
