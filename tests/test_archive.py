"""`hipcache export` and `hipcache import`: what a store holds goes into another one, and nothing goes elsewhere."""

from __future__ import annotations

import builtins
import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from hip import HIT, Lab, only_19
from hipcache.cache.entries import Entry, pack, unpack
from hipcache.cli import Session, carrying, dispatch
from hipcache.store import archive
from hipcache.store.layout import pack_action
from hipcache.store.local import NO_SEAL, LocalStore
from hipcache.store.seal import Seal

KEY, OTHER, THIRD = "0123456789abcdef" * 4, "fedcba9876543210" * 4, "ab" * 32
UNIT = b'{"outputs":[],"passing":[],"text":"","seconds":1}'
OLD = 1_600_000_000


class Shop:
    """Two stores, and the commands over each."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / "a.tar.gz"
        self.here, self.there = (LocalStore(root / name, max_bytes=0) for name in ("here", "there"))
        self.out = self.err = ""

    def __call__(self, store: LocalStore, *argv: str | Path, terminal: bool = False, **environ: str) -> int:
        out, err = io.StringIO(), Terminal() if terminal else io.StringIO()
        base = {"HOME": str(self.root), "HIPCACHE_DIR": str(store.root), "PATH": os.environ["PATH"]}
        status = dispatch([str(word) for word in argv], Session({**base, **environ}, out, err))
        self.out, self.err = out.getvalue(), err.getvalue()
        return status

    def outside(self) -> set[str]:
        """All files that are not in the second store."""
        return {str(path) for path in self.root.rglob("*") if "there" not in path.parts}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def names(file: Path) -> list[str]:
    return [f"{entry.tree} {entry.name}" for entry in archive.read(file)]


def tar(file: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    """An archive that nobody's `export` has made."""
    with tarfile.open(file, "w:gz", format=tarfile.USTAR_FORMAT) as made:
        for member, content in members:
            made.addfile(member, io.BytesIO(content))
    return file


def member(name: str, size: int = 0, **more: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    for field, value in more.items():
        setattr(info, field, value)
    return info


def record(key: str, payload: bytes) -> tuple[tarfile.TarInfo, bytes]:
    content = pack_action(key, payload, NO_SEAL)
    return member(f"v1/actions/{key[:2]}/{key[2:]}", len(content)), content


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
    assert shop.there.size().entries == 2, "the ledger has counted them"
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
    for path in (shop.here.root / "v1").rglob("*"):
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
        os.utime(shop.here.root / "v1/blobs" / digest[:2] / digest[2:], (time, time))
    shop(shop.here, "export", shop.file)
    shop(shop.there, "import", shop.file)
    old, future = (shop.there.root / "v1/blobs" / digest[:2] / digest[2:] for digest in digests)
    assert old.stat().st_mtime == OLD
    assert future.stat().st_mtime <= shop.file.stat().st_mtime + 60


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


def test_what_is_damaged_is_told_and_left_out(shop: Shop) -> None:
    good = shop.here.put_blob(b"good")
    wrong = (member(f"v1/blobs/{KEY[:2]}/{KEY[2:]}", 5), b"wrong")
    _, content = record(KEY, UNIT)
    renamed = (member(f"v1/actions/{OTHER[:2]}/{OTHER[2:]}", len(content)), content)
    right = (member(f"v1/blobs/{good[:2]}/{good[2:]}", 4), b"good")
    tar(shop.file, wrong, renamed, right)
    assert shop(shop.there, "import", shop.file) == 1
    assert shop.out == "3 entries read: 1 new, 0 already there, 2 damaged\n"
    assert shop.there.get_blob(good) == b"good"
    assert shop.there.size().entries == 1


def test_a_record_without_the_seal_of_the_store_does_not_count(shop: Shop) -> None:
    (shop.root / "key").write_bytes(bytes(range(32)))
    (shop.root / "key").chmod(0o600)
    shop.here.put_action(KEY, UNIT)
    shop(shop.here, "export", shop.file)
    assert shop(shop.there, "import", shop.file, HIPCACHE_KEY=str(shop.root / "key")) == 0
    assert shop.out == "1 entry read: 0 new, 0 already there, 1 left out\n"
    sealed = LocalStore(shop.root / "sealed", max_bytes=0, seal=Seal(b"1" * 32))
    sealed.put_action(KEY, UNIT)
    archive.write(shop.file, carrying.entries(sealed, None, int))
    assert len(names(shop.file)) == 1
    assert shop(shop.there, "import", shop.file) == 0
    assert shop.out == "1 entry read: 0 new, 0 already there, 1 left out\n"
    other = LocalStore(shop.root / "other", max_bytes=0, seal=Seal(b"1" * 32))
    carrying.merge(other, shop.file, int)
    assert other.get_action(KEY) == UNIT


def entry(reads: str) -> Entry:
    return Entry(reads, (), (), "", "", 1.0)


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


# Archives that somebody has made to do harm

STRANGE: Mapping[str, tarfile.TarInfo] = {
    "a parent directory": member("../outside"),
    "a parent directory further down": member("v1/blobs/../../../outside"),
    "an absolute path": member("/tmp/outside"),
    "a name of the store that is no entry": member("v1/ledger"),
    "a memo of tools": member("v1/tools/" + KEY),
    "a name with a line behind it": member(f"v1/blobs/{KEY[:2]}/{KEY[2:]}\n"),
    "a symbolic link": member(f"v1/blobs/{KEY[:2]}/{KEY[2:]}", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    "a hard link": member(f"v1/blobs/{KEY[:2]}/{KEY[2:]}", type=tarfile.LNKTYPE, linkname="/etc/passwd"),
    "a device": member(f"v1/blobs/{KEY[:2]}/{KEY[2:]}", type=tarfile.CHRTYPE, devmajor=1, devminor=5),
    "a FIFO": member(f"v1/blobs/{KEY[:2]}/{KEY[2:]}", type=tarfile.FIFOTYPE),
    "a directory": member("v1/blobs", type=tarfile.DIRTYPE),
    "a sparse file": member(f"v1/blobs/{KEY[:2]}/{KEY[2:]}", type=tarfile.GNUTYPE_SPARSE),
}


@pytest.mark.parametrize("what", STRANGE)
def test_what_is_no_entry_ends_the_import_and_is_written_nowhere(shop: Shop, what: str) -> None:
    tar(shop.file, (STRANGE[what], b""))
    before = shop.outside()
    assert shop(shop.there, "import", shop.file) == 1
    assert "is no entry of a store\n  import a file that 'hipcache export' has made" in shop.err
    assert shop.outside() == before
    assert shop.there.size().entries == 0


@pytest.mark.parametrize("size", [archive.MOST_CONTENT + 1, 1 << 40])
def test_a_size_is_bounded_before_anything_is_read(shop: Shop, size: int) -> None:
    header = member(f"v1/blobs/{KEY[:2]}/{KEY[2:]}", size).tobuf(tarfile.GNU_FORMAT)
    shop.file.write_bytes(gzip.compress(header))
    assert shop(shop.there, "import", shop.file) == 1
    assert f"says that it has {size} bytes" in shop.err


def test_an_extended_header_is_not_read(shop: Shop) -> None:
    """A tar can ask for any amount of memory by one."""
    header = member("././@PaxHeader", 1 << 40, type=tarfile.XHDTYPE).tobuf(tarfile.GNU_FORMAT)
    shop.file.write_bytes(gzip.compress(header))
    assert shop(shop.there, "import", shop.file) == 1
    assert "is no entry of a store" in shop.err


def test_more_than_the_store_may_hold_is_refused(shop: Shop) -> None:
    for number in range(20):
        shop.here.put_blob(bytes([number]))
    shop(shop.here, "export", shop.file)
    assert shop(shop.there, "import", shop.file, HIPCACHE_MAX_SIZE="40K") == 1
    assert "raise HIPCACHE_MAX_SIZE" in shop.err


@pytest.mark.parametrize("suffix", [".tar.zst", ".tar.gz"])
def test_a_cut_or_flipped_archive_is_told(shop: Shop, suffix: str) -> None:
    shop.here.put_blob(os.urandom(3000))
    shop.here.put_action(KEY, UNIT)
    file = shop.root / f"a{suffix}"
    shop(shop.here, "export", file)
    whole = file.read_bytes()
    for length in (*range(0, 40), *range(40, len(whole) - 12, 97)):
        file.write_bytes(whole[:length])
        assert shop(shop.there, "import", file) == 1, length
        assert shop.err.startswith(f"hipcache: '{file}' is "), shop.err
    for at in range(0, len(whole), 61):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        shop(shop.there, "import", file)
        assert "Traceback" not in shop.err
    assert shop(shop.there, "verify") == 0, shop.out


def test_a_file_that_is_none_is_told(shop: Shop) -> None:
    shop.file.write_bytes(b"no archive")
    assert shop(shop.there, "import", shop.file) == 1
    assert "packed neither by zstd nor by gzip" in shop.err
    assert shop(shop.there, "import", shop.root / "gone.tar.gz") == 1
    assert "No such file" in shop.err


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
        yield archive.Entry("blobs", KEY, 1, b"x")
        raise OSError(28, "No space left on device")

    shop.file.write_bytes(b"before")
    monkeypatch.setattr(carrying, "entries", failing)
    assert shop(shop.here, "export", shop.file) == 1
    assert "No space left" in shop.err
    assert shop.file.read_bytes() == b"before"
    assert [path.name for path in shop.root.iterdir()] == ["a.tar.gz"]


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
    lab.environ.update(other)
    lab.count_anew()
    assert lab.compile("-MD").outcome == HIT
    assert lab.compile("-MD", env={"HIPCACHE_LOG": str(tmp_path / "log")}).outcome == HIT, "by the engine, too"
    assert lab.hipcache("verify").status == 0
