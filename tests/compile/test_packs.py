"""Packs: the entries of a compile in one compressed file."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest
from hip import HIT, Lab
from hipcache.base import compression
from hipcache.base.hashing import blake3
from hipcache.store import entries as entries_module
from hipcache.store import packs
from hipcache.store.confined import Confined
from hipcache.store.layout import BLOCK
from hipcache.store.local import LocalStore
from hipcache.store.packs import INDEX, Packs
from hipcache.store.seal import Seal
from hipcache.store.upkeep import Upkeep
from toolchains import COMPILERS

KEYS = [f"{number:064x}" for number in range(8)]
CODE = [b"\x7fELF" + os.urandom(2000) for _ in range(3)]
RECORDS = {key: key.encode() * 5 for key in KEYS}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store", max_bytes=0)


def fill(store: LocalStore, *code: bytes) -> list[str]:
    """Gives the digests of the contents."""
    digests = store.put_blobs(code or CODE)
    store.put_actions(RECORDS)
    return digests


def packed(store: LocalStore, *code: bytes) -> list[str]:
    digests = fill(store, *code)
    store.pack()
    return digests


def files(store: LocalStore) -> list[Path]:
    return [path for tree in ("actions", "blobs", "packs") for path in (store.root / "v2" / tree).iterdir()]


def the_pack(store: LocalStore) -> Path:
    (found,) = [path for path in (store.root / "v2/packs").iterdir() if path.name != "index"]
    return found


def again(store: LocalStore) -> LocalStore:
    """As another process sees it."""
    return LocalStore(store.root, max_bytes=0, seal=store.seal)


def check(store: LocalStore, digests: list[str]) -> int:
    """What is there is right; the number of entries that are there."""
    found = [store.get_blob(digest) for digest in digests]
    assert all(content in (None, right) for content, right in zip(found, CODE, strict=True))
    records = [store.get_action(key) for key in KEYS]
    assert all(record in (None, RECORDS[key]) for key, record in zip(KEYS, records, strict=True))
    return sum(one is not None for one in (*found, *records))


def test_entries_of_a_compile_become_one_file_and_read_as_before(store: LocalStore) -> None:
    digests = packed(store)
    assert sorted(path.name for path in files(store)) == sorted([the_pack(store).name, "index"])
    assert check(again(store), digests) == len(digests) + len(KEYS)
    assert [again(store).blob_size(digest) for digest in digests] == [len(one) for one in CODE]


def test_the_sum_is_what_is_on_disk_with_packs(store: LocalStore) -> None:
    packed(store)
    fill(store, b"one more")
    on_disk = [path for path in files(store) if path.name != "index"]
    size = store.size()
    assert (size.bytes, size.entries) == (
        sum(-(-path.stat().st_size // BLOCK) * BLOCK for path in on_disk),
        len(on_disk),
    )


def test_a_content_in_an_object_takes_no_place_of_its_own(store: LocalStore) -> None:
    content = b"\x7fELF" + os.urandom(100_000)
    packed(store, content, b"\x7fELFobject" + content)
    assert the_pack(store).stat().st_size < len(content) + 5000


def based(store: LocalStore) -> tuple[Path, Path, bytes, str]:
    """A pack, one that needs it, and the content of the latter, with its digest."""
    content = b"\x7fELF" + os.urandom(100_000)
    packed(store, content)
    first, later = the_pack(store), again(store)
    later.get_blob(blake3(content).hexdigest())
    (digest,) = packed(later, content + b"edited")
    (second,) = [path for path in first.parent.iterdir() if path not in (first, store.root / "v2" / INDEX)]
    return first, second, content + b"edited", digest


def test_a_pack_does_not_repeat_what_is_in_its_base(store: LocalStore) -> None:
    first, second, content, digest = based(store)
    assert second.stat().st_size < 5000
    assert again(store).get_blob(digest) == content
    first.unlink()
    assert again(store).get_blob(digest) is None


def test_a_long_record_is_compressed_beside_the_other_records(store: LocalStore) -> None:
    store.put_action(KEYS[0], bytes(300_000))
    digests = packed(store)
    (table,) = store.tables()
    code = {name for name, place in table.entries.items() if place.frame.number == packs.CODE}
    assert code == {f"blobs/{digest}" for digest in digests}


def test_packs_that_were_exchanged_and_need_themselves_are_as_absent(store: LocalStore) -> None:
    first, second, _, digest = based(store)
    base, needing = first.read_bytes(), second.read_bytes()
    first.write_bytes(needing), second.write_bytes(base)
    assert [table.entries for table in again(store).tables()].count({}) == 1
    assert again(store).get_blob(digest) is None
    again(store).collect()


def test_a_base_is_used_whenever_a_pack_that_needs_it_is(store: LocalStore) -> None:
    first, _, _, digest = based(store)
    for path in (store.root / "v2/packs").iterdir():
        os.utime(path, (1, 1))
    assert again(store).get_blob(digest)
    assert first.stat().st_mtime > time.time() - 60


@pytest.mark.parametrize("age", [{"unused_for": 86400.0}, {"max_bytes": 2 * BLOCK}], ids=["unused", "limit"])
def test_a_base_leaves_after_the_pack_that_needs_it(store: LocalStore, age: dict[str, float]) -> None:
    """Its own time may be the older one: it was noted before the other pack was made."""
    first, second, _, digest = based(store)
    os.utime(first, (1, 1))
    store.collect(**age)  # type: ignore[arg-type]
    assert again(store).get_blob(digest) or not second.exists()
    assert first.exists() or not second.exists()


def chain(store: LocalStore) -> list[str]:
    """Names of packs of which each needs the ones before, in another order than that of the names."""
    first, second, third = (f"packs/{digit * 12}" for digit in "132")
    content = b"\x7fELF" + os.urandom(9000)
    for name, bases in ((first, {}), (second, {1: first}), (third, {1: first, 2: second})):
        frames = {n: (Packs(store.confined).table(base).frames[n], content) for n, base in bases.items()}
        entries = {f"actions/{blake3(name.encode()).hexdigest()}": content, f"blobs/{name[-1] * 64}": content}
        entries[f"actions/{blake3(name.encode() + b'2').hexdigest()}"] = content
        entries[f"actions/{blake3(name.encode() + b'3').hexdigest()}"] = content
        (store.root / "v2" / name).write_bytes(packs.build(entries, 1, frames))
    return [first, second, third]


@pytest.mark.parametrize("ages", list(permutations((10, 20, 30))))
def test_a_base_of_a_base_leaves_last(store: LocalStore, ages: tuple[int, ...]) -> None:
    store.put_blob(b"x")
    names = chain(store)
    for name, age in zip(names, ages, strict=True):
        os.utime(store.root / "v2" / name, (age, age))
    for left in (2, 1):
        store.collect()
        store.collect(store.size().bytes - BLOCK)
        assert [name for name in names if (store.root / "v2" / name).exists()] == names[:left]


def test_a_pack_without_its_base_leaves_first(store: LocalStore) -> None:
    first, second, _, _ = based(store)
    first.unlink()
    other = store.put_blob(os.urandom(3000))
    os.utime(store.root / "v2/blobs" / other, (1, 1))
    store.collect()
    store.collect(store.size().bytes - 1)
    assert again(store).has_blob(other)
    assert not second.exists()


def test_what_a_compile_puts_drives_nothing_out_before_it_is_packed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store", max_bytes=12 * BLOCK, defers_upkeep=True)
    for number in range(3):
        fill(store, f"content {number}".encode())
        store.pack()
    assert store.size().entries == 3


def test_what_the_compile_has_put_stays_whatever_it_takes(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store", max_bytes=8 * BLOCK, defers_upkeep=True)
    first = store.put_blob(os.urandom(3 * BLOCK))
    store.pack()
    second = store.put_blob(os.urandom(6 * BLOCK))
    store.pack()
    after = again(store)
    assert (after.has_blob(first), after.has_blob(second)) == (False, True)


def test_a_newer_record_counts_whether_it_is_packed_or_not(store: LocalStore) -> None:
    packed(store)
    store.put_action(KEYS[0], b"newer")
    assert again(store).get_action(KEYS[0]) == b"newer"
    store.pack()
    assert again(store).get_action(KEYS[0]) == b"newer"
    store.collect()
    assert again(store).get_action(KEYS[0]) == b"newer"


def test_records_with_a_seal_are_found_by_those_who_have_it(tmp_path: Path) -> None:
    sealed = LocalStore(tmp_path / "store", max_bytes=0, seal=Seal(bytes(range(32))))
    packed(sealed)
    assert again(sealed).get_action(KEYS[0]) == RECORDS[KEYS[0]]
    assert LocalStore(sealed.root, max_bytes=0).get_action(KEYS[0]) is None


@pytest.mark.parametrize("umask", [0o077, 0o002])
def test_what_is_taken_of_its_own_user_alone_is_packed_only_where_nobody_else_writes(
    tmp_path: Path, umask: int
) -> None:
    store = LocalStore(tmp_path / "store", max_bytes=0, umask=umask)
    store.put_action("f" * 64, b"own", own=True)
    packed(store)
    assert (store.root / "v2/actions" / ("f" * 64)).exists() == (umask == 0o002)
    assert again(store).get_action("f" * 64, own=True) == b"own"
    the_pack(store).chmod(0o666)
    assert umask == 0o002 or again(store).get_action("f" * 64, own=True) is None


def test_a_read_only_store_is_read_and_not_packed(store: LocalStore) -> None:
    digests = packed(store)
    reader = LocalStore(store.root, max_bytes=0, read_only=True)
    assert check(reader, digests) == len(digests) + len(KEYS)
    reader.pack()


def test_a_record_that_is_removed_is_gone_from_packs_too(store: LocalStore) -> None:
    packed(store)
    other = again(store)
    other.remove_action(KEYS[0])
    assert other.get_action(KEYS[0]) is None
    assert again(store).get_action(KEYS[0]) is None


def test_what_a_build_uses_keeps_its_pack(store: LocalStore) -> None:
    packed(store)
    (pack, bases, entries), *_ = again(store).packs()
    assert (bases, len(entries)) == (set(), len(KEYS) + len(CODE))
    store.collect(keeping=lambda: {pack})
    assert again(store).get_action(KEYS[0]) == RECORDS[KEYS[0]]
    store.collect(keeping=set)
    assert again(store).get_action(KEYS[0]) is None


def test_a_content_that_is_damaged_before_it_is_packed_stays_out(store: LocalStore) -> None:
    digests = fill(store)
    (store.root / "v2/blobs" / digests[0]).write_bytes(b"damaged")
    store.pack()
    assert check(again(store), digests) == len(digests) + len(KEYS) - 1


# Damage


@pytest.mark.parametrize("name", ["pack", "index"])
def test_a_file_that_is_cut_anywhere_costs_entries_and_makes_none_wrong(store: LocalStore, name: str) -> None:
    digests = packed(store)
    path = the_pack(store) if name == "pack" else store.root / "v2" / INDEX
    whole = path.read_bytes()
    for length in range(0, len(whole), 13):
        path.write_bytes(whole[:length])
        check(LocalStore(store.root, max_bytes=0, read_only=True), digests)


@pytest.mark.parametrize("name", ["pack", "index"])
def test_a_file_with_other_bytes_anywhere_costs_entries_and_makes_none_wrong(store: LocalStore, name: str) -> None:
    digests = packed(store)
    path = the_pack(store) if name == "pack" else store.root / "v2" / INDEX
    whole = path.read_bytes()
    for at in range(0, len(whole), 13):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        check(LocalStore(store.root, max_bytes=0, read_only=True), digests)


def test_a_damaged_pack_is_removed_and_its_entries_can_be_put_again(store: LocalStore) -> None:
    digests = packed(store)
    pack = the_pack(store)
    pack.write_bytes(pack.read_bytes()[:-50])
    assert check(again(store), digests) < len(digests) + len(KEYS)
    packed(store)
    assert check(again(store), digests) == len(digests) + len(KEYS)


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["gone", "empty"])
def test_a_lost_index_is_made_again_by_the_next_count(store: LocalStore, damage: Callable[[Path], object]) -> None:
    digests = packed(store)
    damage(store.root / "v2" / INDEX)
    assert check(again(store), digests) == 0
    store.collect()
    assert check(again(store), digests) == len(digests) + len(KEYS)


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "x").touch()


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b""), a_directory], ids=["empty", "a directory"])
def test_a_lost_index_is_made_again_by_the_next_pack(store: LocalStore, damage: Callable[[Path], object]) -> None:
    digests = packed(store)
    damage(store.root / "v2" / INDEX)
    store.put_blob(b"more")
    store.pack()
    assert check(again(store), digests) == len(digests) + len(KEYS)
    assert not list((store.root / "v2/blobs").iterdir())


def test_a_frame_that_claims_to_be_huge_is_not_unpacked(store: LocalStore) -> None:
    content = compression.compress(bytes(1 << 20))
    with pytest.raises(compression.ZstdError):
        compression.decompress(content, 1 << 21)


# Killed


@pytest.mark.parametrize("step", ["rename", "note", "unlink", "second unlink"])
def test_a_process_that_ends_amid_a_pack_loses_no_entry(
    store: LocalStore, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = fill(store)
    left = [2 if step == "second unlink" else 1]

    def end(*_: object, **__: object) -> None:
        left[0] -= 1
        if not left[0]:
            os._exit(0)

    kinds = {"note": (Packs, "note"), "rename": (entries_module.Steady, "rename")}
    kind, name = kinds.get(step, (entries_module.Steady, "unlink"))
    child = os.fork()
    if not child:
        before = getattr(kind, name)
        setattr(kind, name, lambda *given: (end(), before(*given)))
        store.pack()
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert check(again(store), digests) == len(digests) + len(KEYS)
    store.collect()
    assert check(again(store), digests) == len(digests) + len(KEYS)


def test_processes_that_pack_and_evict_at_once_leave_nothing_wrong(store: LocalStore) -> None:
    children = []
    for number in range(4):
        child = os.fork()
        if not child:
            for turn in range(10):
                mine = LocalStore(store.root, max_bytes=200_000)
                mine.put_blob(b"\x7fELF" + bytes([number, turn]) * 9000)
                packed(mine)
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    check(again(store), [blake3(one).hexdigest() for one in CODE])
    store.collect(200_000)
    assert store.size().bytes <= 200_000


# The index


def test_an_index_grows_with_its_packs(store: LocalStore) -> None:
    for start in range(0, 600, 100):
        store.put_actions({blake3(b"%d" % number).hexdigest(): b"%d" % number for number in range(start, start + 100)})
        store.pack()
    other = again(store)
    assert all(other.get_action(blake3(b"%d" % number).hexdigest()) == b"%d" % number for number in range(600))


def test_packs_leave_whole_and_the_least_recently_used_first(store: LocalStore) -> None:
    packed(store)
    old = the_pack(store)
    os.utime(old, (1, 1))
    store.put_blobs([os.urandom(9000), os.urandom(9000)])
    store.pack()
    store.collect(3 * BLOCK + 2 * BLOCK + BLOCK)
    assert not old.exists()
    assert again(store).get_action(KEYS[0]) is None
    assert len(packs.Packs(Confined(store.root))._tables) == 0


def test_names_are_those_of_files_and_packs(store: LocalStore) -> None:
    digests = packed(store)
    store.put_action("f" * 64, b"loose")
    assert set(store.names("actions")) == {*KEYS, "f" * 64}
    assert set(store.names("blobs")) == set(digests)


# Compiles


def test_a_plain_tar_of_a_store_is_that_store(packing: Lab) -> None:
    """Also where it was made while others wrote: what is torn is a miss."""
    packing.compile("-MD")
    place = packing.root / "unpacked"
    place.mkdir()
    subprocess.run(["tar", "-C", packing.store, "-cf", packing.root / "store.tar", "."], check=True)
    subprocess.run(["tar", "-C", place, "-xf", packing.root / "store.tar"], check=True)
    packing.environ["HIPCACHE_DIR"] = str(place)
    packing.count_anew()
    assert packing.compile("-MD").outcome == HIT
    assert packing.hipcache("verify").status == 0
    index = place / "v2/packs/index"
    index.write_bytes(index.read_bytes()[:100])
    packing.count_anew()
    packing.compile("-O1")
    held = LocalStore(place, max_bytes=0).size().bytes
    assert held == sum(entry.size for entry in Upkeep(Confined(place), time.time).entries())


@pytest.fixture
def packing(tmp_path: Path) -> Lab:
    return Lab.make(tmp_path, COMPILERS[-1])


def test_direct_hits_are_served_from_packs(packing: Lab) -> None:
    packing.warm("-MD")
    for path in (packing.store / "v2/actions").iterdir():
        path.unlink()  # what was refreshed; the packs have the rest
    assert packing.compile("-MD").outcome == "hit"


def test_an_architecture_that_is_added_finds_the_others_in_a_pack(packing: Lab) -> None:
    packing.compile("--offload-arch=gfx90a")
    assert not list((packing.store / "v2/blobs").iterdir())
    assert packing.compile("--offload-arch=gfx90a", "--offload-arch=gfx1030").outcome == "partial"


def test_a_compile_that_fails_packs_what_it_has_made(packing: Lab) -> None:
    packing.write("k.hip", "#error wrong\n")
    assert packing.compile().status != 0
    assert not [path for tree in ("actions", "blobs") for path in (packing.store / "v2" / tree).iterdir()]
    assert list((packing.store / "v2/packs").iterdir())


def test_verify_and_export_find_what_an_index_does_not_tell_of(packing: Lab) -> None:
    packing.compile("-MD")
    file = packing.root / "a.tar.zst"
    told = packing.hipcache("export", file).out
    (Path(packing.environ["HIPCACHE_DIR"]) / "v2" / INDEX).write_bytes(b"")
    assert packing.hipcache("export", file).out == told
    assert packing.hipcache("verify").status == 0
    packing.hipcache("gc")
    assert packing.compile("-MD").outcome == HIT
