"""The store over time: a line when its entries are counted, a file that stays small and that no damage spoils."""

from __future__ import annotations

import binascii
import io
import json
from functools import partial
from pathlib import Path

import pytest
from hipcache import cli
from hipcache.cli import page
from hipcache.config import load
from hipcache.report import conditions, statistics, store_history
from hipcache.report.outcome import CompileOutcome
from hipcache.report.store_history import Point
from hipcache.store import StoreSize
from hipcache.store.layout import BLOCK
from hipcache.store.local import LocalStore
from store_clock import HandClock

DAY = 24 * 3600
HIT, MISS = CompileOutcome("hit"), CompileOutcome("miss")


def sizes(root: Path) -> Path:
    return root / "v2/statistics/sizes"


def noted(root: Path, clock: HandClock, days: range, *, bound: int = 0) -> None:
    for day in days:
        clock.tick(DAY)
        assert store_history.record(root, None, StoreSize(day * 1000, day, bound), clock)


def test_a_point_has_the_size_and_all_counts_so_far(tmp_path: Path) -> None:
    clock = HandClock()
    for outcome in (HIT, HIT, MISS):
        statistics.record(tmp_path, outcome)
    statistics.count(tmp_path, statistics.EVICTED, {"entries": 3, "bytes": 4096})
    assert store_history.record(tmp_path, None, StoreSize(5000, 4, 9000), clock)
    assert store_history.read(tmp_path, clock()) == [Point(int(clock()), 5000, 4, 9000, 2, 0, 1, 3, 4096)]


def test_a_day_s_count_and_an_eviction_and_nothing_else_add_a_point(tmp_path: Path) -> None:
    clock = HandClock()
    store = LocalStore(tmp_path, max_bytes=10 * BLOCK, clock=clock)
    told: list[tuple[int, int]] = []
    store.tell(lambda entries, size: None, lambda size, entries: told.append((size, entries)))

    def put(number: int) -> None:
        clock.tick()
        store.put_blob(b"%d" % number)

    put(0)
    assert told == [(BLOCK, 1)], "the first put counts"
    for number in range(1, 10):
        put(number)
    store.get_blob(store.put_blob(b"0"))
    assert len(told) == 1
    put(10)
    assert told[1:] == [(10 * BLOCK, 10)], "the bound is met: of the present compile no more goes"
    clock.tick(DAY)
    put(11)
    assert told[2:] == [(9 * BLOCK, 9)]
    store.collect(dry_run=True)
    assert len(told) == 3
    store.collect(0)
    assert told[3:] == [(0, 0)]


def test_clear_and_gc_add_a_point(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "HIPCACHE_DIR": str(tmp_path / "store"), "HIPCACHE_MAX_SIZE": "1GiB"}
    settings = load(environ)
    for verb in ("gc", "clear"):
        store = LocalStore(settings.dir, max_bytes=1 << 30)
        conditions.follow_upkeep(settings, store)
        store.put_blob(b"content")
        sizes(settings.dir).unlink(missing_ok=True)
        out = io.StringIO()
        assert cli.run([verb], environ, out, out) == 0
        (point,) = store_history.read(settings.dir, 1e12)
        assert (point.entries, point.limit) == (1 if verb == "gc" else 0, 1 << 30)


def test_a_point_takes_the_place_of_one_that_is_minutes_old(tmp_path: Path) -> None:
    clock = HandClock()
    for size in (1, 2, 3):
        store_history.record(tmp_path, None, StoreSize(size, size, 0), clock)
        clock.tick(60)
    assert [point.bytes for point in store_history.read(tmp_path, clock())] == [3]
    clock.tick(store_history.STEP)
    store_history.record(tmp_path, None, StoreSize(4, 4, 0), clock)
    assert [point.bytes for point in store_history.read(tmp_path, clock())] == [3, 4]


def test_years_stay_in_a_small_file_with_the_newest_in_full(tmp_path: Path) -> None:
    clock = HandClock()
    noted(tmp_path, clock, range(1, 2 * store_history.MOST))
    points = store_history.read(tmp_path, clock())
    assert store_history.MOST // 2 < len(points) <= store_history.MOST
    assert sizes(tmp_path).stat().st_size < 64 << 10
    days = [point.entries for point in points]
    assert days == sorted(days)
    assert days[0] == 1
    assert days[-200:] == list(range(days[-1] - 199, days[-1] + 1))
    assert not list(sizes(tmp_path).parent.glob("new.*"))


def test_a_file_cut_at_every_length_or_with_any_byte_wrong_costs_its_own_line(tmp_path: Path) -> None:
    clock = HandClock()
    noted(tmp_path, clock, range(1, 4))
    whole = sizes(tmp_path).read_bytes()
    read = partial(store_history.read, tmp_path, clock())
    points = read()
    assert len(points) == 3
    for length in range(len(whole)):
        sizes(tmp_path).write_bytes(whole[:length])
        assert read() == points[: len(read())]
    for at in range(len(whole)):
        sizes(tmp_path).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        found = read()
        assert len(found) >= 2
        assert set(found) <= set(points)


def test_what_another_has_written_there_is_no_reason_to_fail(tmp_path: Path) -> None:
    clock = HandClock()
    noted(tmp_path, clock, range(1, 2))
    line = sizes(tmp_path).read_bytes()
    for strange in (b"9" * 5000, b"-1\t0\t0\t0\t0\t0\t0\t0\t0", b"1\t2", b"%d" % (1 << 64) + b"\t0" * 8):
        sizes(tmp_path).write_bytes(b"\n%08x\t%s\n" % (binascii.crc32(strange), strange) + line)
        assert [point.entries for point in store_history.read(tmp_path, clock())] == [1]
    sizes(tmp_path).unlink()
    sizes(tmp_path).symlink_to(tmp_path / "elsewhere")
    assert store_history.read(tmp_path, clock()) == []
    noted(tmp_path, clock, range(2, 3))
    assert [point.entries for point in store_history.read(tmp_path, clock())] == [2]
    assert not (tmp_path / "elsewhere").exists()


def test_what_a_clock_that_was_ahead_has_left_is_not_shown(tmp_path: Path) -> None:
    clock = HandClock()
    noted(tmp_path, clock, range(1, 3))
    assert [point.entries for point in store_history.read(tmp_path, clock() - 1)] == [1]


def test_what_cannot_be_written_is_false_and_never_an_error(tmp_path: Path) -> None:
    (tmp_path / "v2").write_text("a file where the directory should be")
    assert not store_history.record(tmp_path, None, StoreSize(1, 1, 0), HandClock())


def test_changes_count_from_zero_where_the_counts_were_zeroed() -> None:
    points = [
        Point(at, 0, 0, 0, *counts) for at, counts in enumerate([(5, 1, 2, 0, 0), (9, 1, 2, 3, 30), (2, 0, 1, 0, 0)])
    ]
    first, second = page.changes(points)
    assert (first.hits, first.partial, first.misses, first.evicted, first.evicted_bytes) == (4, 0, 0, 3, 30)
    assert (second.hits, second.partial, second.misses, second.evicted) == (2, 0, 1, 0)


@pytest.mark.parametrize("span", [600, 3 * DAY, 400 * DAY])
def test_the_chart_has_evictions_bound_and_figures(span: int) -> None:
    start = 1_700_000_000
    points = [
        Point(start, 1 << 20, 10, 4 << 20, 0, 0, 0, 0, 0),
        Point(start + span // 2, 4 << 20, 40, 4 << 20, 5, 1, 7, 0, 0),
        Point(start + span, 3 << 20, 30, 4 << 20, 9, 1, 7, 12, 1 << 20),
    ]
    drawn = page.store_chart(points)
    assert drawn.count('class="evicted"') == 1
    assert "12 entries evicted, 1.0 MiB" in drawn
    assert drawn.count('class="limit"') == 1
    assert drawn.count('<rect class="hit"') == 2
    assert drawn.count('<rect class="miss"') == 1
    assert "<td>3.0 MiB</td><td>30</td><td>4</td><td>0</td><td>0</td><td>12</td>" in drawn
    assert 'class="limit"' not in page.store_chart(
        [Point(*(one.numbers[:3]), 1 << 40, *one.numbers[4:]) for one in points]
    )


def test_a_store_of_one_moment_has_no_chart() -> None:
    assert page.store_chart([]) == ""
    assert page.store_chart([Point(5, 1, 1, 0, 0, 0, 0, 0, 0)] * 2) == ""


def test_old_and_newer_statistics_read_beside_it(tmp_path: Path) -> None:
    """The file is no log: it is neither folded nor counted."""
    clock = HandClock()
    statistics.record(tmp_path, HIT)
    noted(tmp_path, clock, range(1, 3))
    statistics.zero(tmp_path)
    assert statistics.read(tmp_path).compiles["hit"] == 0
    assert len(store_history.read(tmp_path, clock())) == 2
    assert json.dumps(statistics.read(tmp_path).as_json(StoreSize(0, 0, 0)))
