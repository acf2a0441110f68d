"""Archives that somebody has made to do harm: nothing goes elsewhere than into the store."""

from __future__ import annotations

import gzip
import os
import tarfile
from collections.abc import Mapping

import pytest
from archive_shop import KEY, OTHER, UNIT, Shop, member, names, record, shop, tar
from hipcache.cli import export, import_
from hipcache.store import archive
from hipcache.store.local import LocalStore
from hipcache.store.seal import Seal

__all__ = ["shop"]


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
    archive.write(shop.file, export.entries(sealed, None, int))
    assert len(names(shop.file)) == 1
    assert shop(shop.there, "import", shop.file) == 0
    assert shop.out == "1 entry read: 0 new, 0 already there, 1 left out\n"
    other = LocalStore(shop.root / "other", max_bytes=0, seal=Seal(b"1" * 32))
    import_.merge(other, shop.file, int)
    assert other.get_action(KEY) == UNIT


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
    mine = shop.there.put_blob(b"mine")
    shop.here.put_blob(os.urandom(50_000))
    shop(shop.here, "export", shop.file)
    assert shop(shop.there, "import", shop.file, HIPCACHE_MAX_SIZE="40K") == 1
    assert "raise HIPCACHE_MAX_SIZE" in shop.err
    assert set(shop.there.names("blobs")) == {mine}


def test_what_expands_is_kept_within_the_limit(shop: Shop) -> None:
    for number in range(4):
        shop.here.put_blob(bytes([number]) * 1_000_000)
    shop(shop.here, "export", shop.file)
    assert shop(shop.there, "import", shop.file, HIPCACHE_MAX_SIZE="40K") == 0
    assert shop.there.size().bytes <= 40_000


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
