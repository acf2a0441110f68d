"""The bound of the local store: least recent use, a sum that nobody recounts at each put, and that heals."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from blake3 import blake3
from hipcache.store.confined import Confined
from hipcache.store.layout import BLOCK, LEDGER
from hipcache.store.ledger import Ledger
from hipcache.store.local import LocalStore
from hipcache.store.upkeep import RECENT
from store_clock import HandClock

DAY = 24 * 3600
LONG = RECENT + 3600


def content(number: int) -> bytes:
    return b"entry %d" % number


def digest(number: int) -> str:
    return blake3(content(number)).hexdigest()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(tmp_path: Path, clock: HandClock) -> LocalStore:
    """Room for ten small entries; eviction leaves nine."""
    return LocalStore(tmp_path / "store", max_bytes=10 * BLOCK, clock=clock)


def fill(store: LocalStore, clock: HandClock, numbers: range, seconds: float = LONG) -> None:
    """`seconds`: from one to the next."""
    for number in numbers:
        clock.tick(seconds)
        store.put_blob(content(number))


def kept(store: LocalStore, numbers: Iterable[int]) -> list[int]:
    return [number for number in numbers if store.has_blob(digest(number))]


def on_disk(store: LocalStore) -> tuple[int, int]:
    files = [path for name in ("actions", "blobs") for path in (store.root / "v2" / name).glob("*")]
    return sum(-(-path.stat().st_size // BLOCK) * BLOCK for path in files), len(files)


def held(store: LocalStore) -> tuple[int, int]:
    size = store.size()
    return size.bytes, size.entries


# Least recent use


def test_a_full_store_keeps_everything(store: LocalStore, clock: HandClock) -> None:
    fill(store, clock, range(10))
    assert kept(store, range(10)) == list(range(10))


def test_the_oldest_entries_go_first_down_to_nine_tenths(store: LocalStore, clock: HandClock) -> None:
    fill(store, clock, range(11))
    assert kept(store, range(11)) == list(range(2, 11))
    assert held(store) == on_disk(store) == (9 * BLOCK, 9)


@pytest.mark.parametrize(
    "use",
    [
        lambda store, out: store.get_blob(digest(0)),
        lambda store, out: store.copy_blob(digest(0), out),
        lambda store, out: store.put_blob(content(0)),
    ],
    ids=["get", "copy", "put again"],
)
def test_a_used_blob_stays(
    store: LocalStore, clock: HandClock, tmp_path: Path, use: Callable[[LocalStore, Path], object]
) -> None:
    fill(store, clock, range(10))
    clock.tick(LONG)
    assert use(store, tmp_path / "out.o")
    fill(store, clock, range(10, 11))
    assert kept(store, range(11)) == [0, *range(3, 11)]


@pytest.mark.parametrize("wrong", [2 * DAY, 400 * DAY])
def test_what_was_last_used_when_the_clock_was_far_ahead_does_not_stay_for_ever(
    store: LocalStore, clock: HandClock, wrong: int
) -> None:
    fill(store, clock, range(2), 1)
    clock.now += wrong
    fill(store, clock, range(2, 5), 1)
    assert store.get_blob(digest(0)) is not None
    clock.now -= wrong
    fill(store, clock, range(5, 10), 1)
    assert store.get_blob(digest(2)) is not None  # used since: as any other
    clock.tick(LONG)
    fill(store, clock, range(10, 14), 1)
    assert {0, 3, 4}.isdisjoint(kept(store, range(14)))
    assert 2 in kept(store, range(14))


def test_what_another_host_with_another_clock_used_is_not_old(store: LocalStore, clock: HandClock) -> None:
    fill(store, clock, range(9))
    clock.now += 3600
    assert store.get_blob(digest(0)) is not None
    clock.now -= 3600
    fill(store, clock, range(9, 13))
    assert 0 in kept(store, range(13))


def test_a_look_is_not_a_use(store: LocalStore, clock: HandClock) -> None:
    fill(store, clock, range(10))
    clock.tick(LONG)
    assert store.has_blob(digest(0))
    fill(store, clock, range(10, 11))
    assert not store.has_blob(digest(0))


def test_actions_and_blobs_stand_in_one_order(store: LocalStore, clock: HandClock) -> None:
    store.put_action(digest(100), b"unused")
    clock.tick(LONG)
    store.put_action(digest(101), b"used")
    fill(store, clock, range(8))
    clock.tick(LONG)
    assert store.get_action(digest(101)) == b"used"
    fill(store, clock, range(8, 9))
    assert store.get_action(digest(100)) is None
    assert store.get_action(digest(101)) == b"used"
    assert kept(store, range(9)) == list(range(1, 9))


def test_collect_holds_another_bound_when_asked(store: LocalStore, clock: HandClock) -> None:
    fill(store, clock, range(10))
    assert store.collect(4 * BLOCK) == 6 * BLOCK
    assert kept(store, range(10)) == [6, 7, 8, 9]


def test_a_store_opened_with_a_smaller_bound_shrinks_at_its_next_put(store: LocalStore, clock: HandClock) -> None:
    fill(store, clock, range(10))
    smaller = LocalStore(store.root, max_bytes=5 * BLOCK, clock=clock)
    fill(smaller, clock, range(10, 11))
    assert held(smaller) == (4 * BLOCK, 4)


def test_a_bound_of_zero_is_no_bound(tmp_path: Path, clock: HandClock) -> None:
    store = LocalStore(tmp_path / "store", max_bytes=0, clock=clock)
    fill(store, clock, range(50))
    assert store.collect() == 0
    assert held(store) == (50 * BLOCK, 50)


# Bounds that are too small


def build(store: LocalStore, clock: HandClock) -> int:
    """How many of twenty sources are hits, in the order of ninja. Each that is none is compiled in a minute."""
    hits = 0
    for number in range(20):
        if store.get_action(digest(number)) is not None and store.get_blob(digest(1000 + number)):
            hits += 1
        else:
            clock.tick(60)
            store.put_blob(content(1000 + number))
            store.put_action(digest(number), os.urandom(3 * BLOCK))
            store.pack()
    return hits


@pytest.mark.parametrize("between", [60, 1800, 5 * 3600, DAY])
def test_a_store_too_small_for_a_build_keeps_serving_what_fits(
    tmp_path: Path, clock: HandClock, between: float
) -> None:
    """It has room for ten of twenty sources. By last use alone it would serve none."""
    store = LocalStore(tmp_path / "store", max_bytes=10 * 4 * BLOCK, clock=clock)
    for number in range(4):
        hits = build(LocalStore(store.root, max_bytes=store.max_bytes, clock=clock), clock)
        clock.tick(between)
        assert hits >= 5 or number == 0, (number, hits)


def test_what_is_compiled_last_is_kept_beside_a_build_that_fills_the_store(store: LocalStore, clock: HandClock) -> None:
    for number in (*range(20), *range(50, 53)):
        fill(LocalStore(store.root, max_bytes=store.max_bytes, clock=clock), clock, range(number, number + 1), 1)
    assert kept(store, range(50, 53)) == [50, 51, 52]
    assert kept(store, range(20))[:6] == list(range(6))


@pytest.mark.parametrize("blocks", [2, 4, 8, 10])
def test_what_one_compile_has_used_is_kept_if_the_store_has_room_for_it(
    store: LocalStore, clock: HandClock, blocks: int
) -> None:
    """However much that is, beside others that are used again and again; and of these, what has room."""
    for _ in range(3):
        others = LocalStore(store.root, max_bytes=store.max_bytes, clock=clock)
        for number in range(8):
            if not others.has_blob(digest(number)):
                fill(others, clock, range(number, number + 1), 1)
            assert others.get_blob(digest(number))
        clock.tick(1)
        compiled = LocalStore(store.root, max_bytes=store.max_bytes, clock=clock)
        clock.tick(1)
        assert compiled.get_blob(digest(7))
        fill(compiled, clock, range(50, 50 + blocks - 1), 1)
        assert kept(store, [7, *range(50, 50 + blocks - 1)]) == [7, *range(50, 50 + blocks - 1)]
        assert len(kept(store, range(7))) >= min(7, 9 - blocks)
        clock.tick(1)


def test_what_a_pack_needs_stays_with_it(tmp_path: Path, clock: HandClock) -> None:
    """An edit is packed with the pack of before for its base."""
    text, based = os.urandom(5 * BLOCK), 0
    for number in range(60):
        store = LocalStore(tmp_path / "store", max_bytes=60 * BLOCK, clock=clock)
        clock.tick(61)
        store.get_action(digest(0))
        for which in range(3):
            store.put_action(digest(number + 100 * which), text + b"%d" % number)
        store.pack()
        packs = {name: bases for name, bases, _ in store.packs()}
        based = max(based, sum(map(bool, packs.values())))
        assert packs.keys() >= set().union(*packs.values())
    assert based > 20


@pytest.mark.parametrize("max_bytes", [1, 1024, BLOCK - 1])
def test_a_bound_smaller_than_any_entry_keeps_none(tmp_path: Path, clock: HandClock, max_bytes: int) -> None:
    store = LocalStore(tmp_path / "store", max_bytes=max_bytes, clock=clock)
    assert store.put_blob(content(0)) == digest(0)
    store.put_action(digest(1), b"record")
    assert not store.has_blob(digest(0))
    assert store.get_action(digest(1)) is None
    assert held(store) == (0, 0)


def test_with_room_for_one_entry_nothing_breaks(tmp_path: Path, clock: HandClock) -> None:
    """Nine tenths of one entry are none."""
    store = LocalStore(tmp_path / "store", max_bytes=BLOCK, clock=clock)
    for number in range(5):
        fill(store, clock, range(number, number + 1))
        assert held(store) == on_disk(store)
        assert held(store)[0] <= BLOCK


def test_an_entry_bigger_than_the_bound_does_not_drive_the_others_out(store: LocalStore, clock: HandClock) -> None:
    fill(store, clock, range(10))
    huge = store.put_blob(bytes(11 * BLOCK))
    assert not store.has_blob(huge)
    assert kept(store, range(10)) == list(range(10))


def test_an_action_that_outgrows_the_bound_is_gone_and_not_the_old_one(store: LocalStore) -> None:
    store.put_action(digest(0), b"old")
    store.put_action(digest(0), bytes(11 * BLOCK))
    assert store.get_action(digest(0)) is None
    assert held(store) == (0, 0)


# The cost of a put


def test_neither_put_nor_get_lists_a_directory(
    store: LocalStore, clock: HandClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A put must cost the same with 300,000 entries. Only the first one, which sets up the ledger, and upkeep list."""
    fill(store, clock, range(1), 1)

    def refuse(*_: object) -> None:
        raise AssertionError("a directory was listed")

    for name in ("scandir", "listdir", "walk"):
        monkeypatch.setattr(os, name, refuse)
    fill(store, clock, range(1, 8), 1)
    store.put_action(digest(0), b"record")
    store.put_action(digest(0), b"record, again")
    assert store.get_action(digest(0)) == b"record, again"
    assert store.get_blob(digest(1)) == content(1)
    assert store.copy_blob(digest(1), tmp_path / "out.o")
    assert store.size().entries == 9


# The ledger


def test_the_sum_is_what_is_on_disk_through_puts_replacements_and_removals(store: LocalStore, clock: HandClock) -> None:
    fill(store, clock, range(3))
    store.put_action(digest(0), bytes(3 * BLOCK))
    store.put_action(digest(0), bytes(10))
    store.put_action(digest(1), bytes(10))
    store.remove_action(digest(1))
    store.remove_action(digest(1))
    assert held(store) == on_disk(store) == (4 * BLOCK, 4)


def test_a_deleted_ledger_is_made_again(store: LocalStore, clock: HandClock) -> None:
    fill(store, clock, range(10))
    os.unlink(store.confined.path(LEDGER))
    assert held(store) == on_disk(store)
    os.unlink(store.confined.path(LEDGER))
    fill(store, clock, range(10, 11))
    assert held(store) == on_disk(store) == (9 * BLOCK, 9)


def test_a_ledger_cut_or_flipped_anywhere_is_not_believed(store: LocalStore, clock: HandClock) -> None:
    fill(store, clock, range(4))
    ledger = Path(store.confined.path(LEDGER))
    whole = ledger.read_bytes()
    damaged = [whole[:length] for length in range(len(whole))]
    damaged += [whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :] for at in range(len(whole))]
    for record in damaged:
        ledger.write_bytes(record)
        assert held(store) == (4 * BLOCK, 4)


def test_a_damaged_ledger_is_counted_also_by_a_read_only_store(store: LocalStore, clock: HandClock) -> None:
    fill(store, clock, range(4))
    ledger = Path(store.confined.path(LEDGER))
    ledger.write_bytes(b"damaged")
    reader = LocalStore(store.root, max_bytes=0, read_only=True)
    assert held(reader) == (4 * BLOCK, 4)
    assert ledger.read_bytes() == b"damaged"


def make_wrong(store: LocalStore, entries: int) -> None:
    with Ledger(Confined(store.root)).held() as book:
        book.entries = entries
        book.bytes = entries * BLOCK
        book.save()


def test_a_sum_that_is_too_high_heals_when_it_meets_the_bound_and_evicts_nothing(
    store: LocalStore, clock: HandClock
) -> None:
    """This is the way in which killed processes make it wrong."""
    fill(store, clock, range(4))
    make_wrong(store, 10)
    fill(store, clock, range(4, 5))
    assert kept(store, range(5)) == list(range(5))
    assert held(store) == (5 * BLOCK, 5)


def test_a_sum_that_is_too_low_heals_within_a_day(store: LocalStore, clock: HandClock) -> None:
    fill(store, clock, range(4))
    make_wrong(store, 0)
    clock.tick(DAY)
    fill(store, clock, range(4, 5))
    assert held(store) == (5 * BLOCK, 5)


def test_collect_puts_a_wrong_sum_right(store: LocalStore, clock: HandClock) -> None:
    fill(store, clock, range(4))
    make_wrong(store, 0)
    assert store.collect() == 0
    assert held(store) == (4 * BLOCK, 4)


def test_a_clock_that_was_set_back_a_little_causes_no_count(
    store: LocalStore, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts that share a store disagree by seconds; a count at each put would be slow."""
    fill(store, clock, range(1), 1)
    clock.tick(-30)
    monkeypatch.setattr(os, "scandir", None)
    fill(store, clock, range(1, 3), 1)
    assert held(store) == (3 * BLOCK, 3)
