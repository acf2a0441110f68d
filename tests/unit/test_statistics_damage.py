"""Statistics that are cut, damaged, locked or killed: no count is lost, no damage is an error."""

from __future__ import annotations

import binascii
import fcntl
import os
from pathlib import Path

import pytest
from counted_outcomes import HIT, PARTIAL, PASSED, directory, folds_at, total
from hipcache.base.errors import StoreError
from hipcache.report import statistics
from hipcache.report.outcome import CompileOutcome, UnitOutcome
from hipcache.report.statistics import Tally
from hipcache.store.confined import Confined

__all__ = ["folds_at"]


def test_a_log_cut_at_every_length_reads_and_goes_on_counting(tmp_path: Path) -> None:
    for outcome in (HIT, PARTIAL, PASSED):
        statistics.record(tmp_path, outcome)
    log = directory(tmp_path) / "log"
    whole = log.read_bytes()
    for length in range(len(whole) + 1):
        log.write_bytes(whole[:length])
        # A line without its line feed is complete by its checksum.
        complete = sum(1 for line in whole[:length].split(b"\n") if line and line in whole.split(b"\n"))
        assert total(tmp_path) == complete, length
        assert statistics.record(tmp_path, HIT)
        assert total(tmp_path) == complete + 1, "the torn line spoils no other"


def test_a_damaged_byte_costs_its_own_line_only(tmp_path: Path) -> None:
    for _ in range(3):
        statistics.record(tmp_path, PARTIAL)
    log = directory(tmp_path) / "log"
    whole = log.read_bytes()
    for place in range(len(whole)):
        for value in (0, 10, 0xFF, whole[place] ^ 1):
            damaged = bytearray(whole)
            damaged[place] = value
            log.write_bytes(damaged)
            assert total(tmp_path) in (2, 3), place


def test_totals_cut_or_damaged_anywhere_count_as_none(tmp_path: Path, folds_at: pytest.MonkeyPatch) -> None:
    for _ in range(10):
        statistics.record(tmp_path, PARTIAL)
    totals = directory(tmp_path) / "totals"
    whole = totals.read_bytes()
    (directory(tmp_path) / "log").unlink(missing_ok=True)
    expected = total(tmp_path)
    assert expected > 0
    for length in range(len(whole)):
        totals.write_bytes(whole[:length])
        assert total(tmp_path) == 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        totals.write_bytes(damaged)
        assert total(tmp_path) == 0
    assert statistics.record(tmp_path, HIT)
    assert total(tmp_path) == 1
    totals.write_bytes(whole)
    assert total(tmp_path) == expected + 1


@pytest.mark.parametrize("line", [b"x\tmiss", b"\tmiss", b"9" * 400 + b"\tsince", b"9" * 9999 + b"\tmiss"])
def test_totals_with_numbers_that_are_none_count_as_none(
    tmp_path: Path, folds_at: pytest.MonkeyPatch, line: bytes
) -> None:
    for _ in range(10):
        statistics.record(tmp_path, PARTIAL)
    totals = directory(tmp_path) / "totals"
    (directory(tmp_path) / "log").unlink(missing_ok=True)
    header, _, body = totals.read_bytes().partition(b"\n")
    body += line + b"\n"
    totals.write_bytes(header.rpartition(b" ")[0] + b" %08x\n" % binascii.crc32(body) + body)
    assert total(tmp_path) == 0
    assert statistics.record(tmp_path, HIT)
    assert total(tmp_path) == 1


class Killed(BaseException):
    """Stands for kill -9: nothing in the code under test catches it."""


@pytest.mark.parametrize("step", range(1, 8))
def test_a_fold_that_is_killed_at_any_step_counts_nothing_twice_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    for _ in range(3):
        statistics.record(tmp_path, HIT)
    calls = 0

    def counted(real: object) -> object:
        def call(*arguments: object) -> object:
            nonlocal calls
            calls += 1
            if calls == step:
                raise Killed
            return real(*arguments)  # type: ignore[operator]

        return call

    with monkeypatch.context() as patch:
        patch.setattr(statistics, "FOLD_AT", 1)
        for name in ("rename", "remove", "write"):
            patch.setattr(Confined, name, counted(getattr(Confined, name)))
        killed = False
        try:
            statistics.record(tmp_path, HIT)
        except Killed:
            killed = True
        # rename the log, write and rename the totals, remove the log
        assert killed == (step <= 4)
    assert total(tmp_path) == 4
    monkeypatch.setattr(statistics, "FOLD_AT", 1)
    assert statistics.record(tmp_path, HIT)
    assert total(tmp_path) == 5
    names = {path.name for path in directory(tmp_path).iterdir() if not path.name.startswith("new.")}
    assert names == {"lock", "totals"}


def test_a_lock_that_is_held_delays_no_compile_and_loses_no_count(tmp_path: Path) -> None:
    statistics.record(tmp_path, HIT)
    holder = os.open(directory(tmp_path) / "lock", os.O_RDWR)
    fcntl.flock(holder, fcntl.LOCK_EX)
    for _ in range(3):
        assert statistics.record(tmp_path, HIT)
    os.close(holder)
    assert total(tmp_path) == 4


def test_names_and_reasons_cannot_break_a_line(tmp_path: Path) -> None:
    odd = CompileOutcome(
        "passed_through",
        reason="a\tb\nc  d \udcff\u2028é",
        units=(UnitOutcome("gfx9\t0\n6", True, True, True), UnitOutcome("", False)),
    )
    assert statistics.record(tmp_path, odd)
    assert statistics.record(tmp_path, HIT)
    numbers = statistics.read(tmp_path)
    assert sum(numbers.compiles.values()) == 2
    assert numbers.units["gfx9 0 6"] == Tally(1, 0)
    assert list(numbers.passed_through) == ["a b c d \\udcff é"]


def test_what_cannot_be_written_is_false_and_never_an_error(tmp_path: Path) -> None:
    (tmp_path / "v2").write_text("a file where the directory should be")
    assert not statistics.record(tmp_path, HIT)
    assert total(tmp_path) == 0
    with pytest.raises(StoreError, match="statistics"):
        statistics.zero(tmp_path)


def test_a_full_disk_is_false_and_the_next_line_counts(small_disk: Path) -> None:
    written = 0
    statistics.record(small_disk, HIT)
    with pytest.raises(OSError, match="No space"), (small_disk / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(4096))
    while statistics.record(small_disk, HIT):
        written += 1
        assert written < 1000
    (small_disk / "filler").unlink()
    assert statistics.record(small_disk, HIT)
    assert total(small_disk) == written + 2
