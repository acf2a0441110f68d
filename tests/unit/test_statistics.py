"""Statistics: no count is lost, no damage is an error."""

from __future__ import annotations

import io
import json
import multiprocessing
import time
from pathlib import Path

import manual
import pytest
from counted_outcomes import HIT, PARTIAL, PASSED, directory, folds_at, total
from hipcache.base.values import replace
from hipcache.cli import stats
from hipcache.cli.screen import Screen
from hipcache.config import Config
from hipcache.report import statistics, telling
from hipcache.report.outcome import OUTCOMES, CompileOutcome, UnitOutcome
from hipcache.report.statistics import EVICTED, CounterGroup, Tally
from hipcache.store import StoreSize

__all__ = ["folds_at"]


def test_nothing_recorded_reads_as_zeros_and_creates_nothing(tmp_path: Path) -> None:
    numbers = statistics.read(tmp_path)
    assert numbers.compiles == dict.fromkeys(OUTCOMES, 0)
    assert numbers.units == {"host": Tally(), "link": Tally()}
    assert numbers.since is None
    assert list(tmp_path.iterdir()) == []


def test_each_compile_is_counted_by_outcome_unit_and_job(tmp_path: Path) -> None:
    for outcome in (HIT, HIT, PARTIAL, PASSED, PASSED, CompileOutcome("passed_through", reason="no HIP")):
        assert statistics.record(tmp_path, outcome)
    numbers = statistics.read(tmp_path)
    assert numbers.compiles == {"hit": 2, "partial": 1, "miss": 0, "passed_through": 3, "failed": 0}
    assert numbers.units == {
        "gfx906": Tally(1, 0),
        "gfx90a:xnack+": Tally(2, 1),
        "host": Tally(2, 1),
        "link": Tally(),
    }
    assert numbers.frontend == Tally(2, 2), "the host's front end is not a device job"
    assert numbers.backend == Tally(3, 1)
    assert numbers.passed_through == {"it names several sources": 2, "no HIP": 1}
    assert numbers.seconds_saved == 2.5
    assert numbers.since is not None


def test_a_job_that_was_not_needed_is_not_counted(tmp_path: Path) -> None:
    statistics.record(tmp_path, CompileOutcome("hit", units=(UnitOutcome("gfx906", True, None, True),)))
    numbers = statistics.read(tmp_path)
    assert (numbers.frontend, numbers.backend) == (Tally(), Tally(1, 0))


def test_times_evictions_and_configure_checks_have_counts_of_their_own(tmp_path: Path) -> None:
    for end in (replace(PARTIAL, took=2.0), replace(PARTIAL.as_hit(), took=0.25), replace(PARTIAL.as_hit(), took=0.75)):
        statistics.record(tmp_path, end)
    before = statistics.read(tmp_path)
    assert before.average_seconds == {"hit": 0.5, "partial": 2.0}
    mark = tmp_path / "mark.json"
    mark.write_text(json.dumps(before.as_json(StoreSize(0, 0, 0))))
    statistics.record(tmp_path, replace(PARTIAL, took=1.0, check=True))
    statistics.record(tmp_path, replace(PARTIAL, took=4.0))
    statistics.count(tmp_path, EVICTED, {"entries": 3, "bytes": 4096})
    numbers = stats.since(statistics.read(tmp_path), mark)
    assert (numbers.checks, numbers.compiles["partial"], numbers.timed) == ({"partial": 1}, 1, {"hit": 0, "partial": 1})
    assert numbers.average_seconds == {"partial": 4.0}
    assert numbers.counted[EVICTED] == {"entries": 3, "bytes": 4096}


def test_the_json_has_the_public_shape(tmp_path: Path) -> None:
    statistics.record(tmp_path, PARTIAL)
    statistics.record(tmp_path, PASSED)
    document = statistics.read(tmp_path).as_json(StoreSize(bytes=5, entries=2, max_bytes=100))
    assert isinstance(document.pop("since"), float)
    assert document == {
        "version": 2,
        "direct_hits": 0,
        "average_seconds": {},
        "timed": {},
        "checks": {},
        "evicted": {"entries": 0, "bytes": 0},
        "compiles": {"hit": 0, "partial": 1, "miss": 0, "passed_through": 1, "failed": 0},
        "units": {
            "gfx906": {"hits": 1, "misses": 0},
            "gfx90a:xnack+": {"hits": 0, "misses": 1},
            "host": {"hits": 0, "misses": 1},
            "link": {"hits": 0, "misses": 0},
        },
        "jobs": {"frontend": {"hits": 0, "misses": 2}, "backend": {"hits": 1, "misses": 1}},
        "store": {"bytes": 5, "max_bytes": 100, "entries": 2},
        "seconds_saved": 2.5,
        "passed_through": {"it names several sources": 1},
        "not_kept": {},
        "verified": {"same": 0, "different": 0, "varying": 0},
        "lock_timeouts": 0,
        "preambles": {"used": 0, "made": 0, "checked": 0, "different": 0},
        "without_preamble": {},
        "remote": dict.fromkeys(("hits", "misses", "errors", "uploads", "received", "sent", "milliseconds"), 0),
        "remote_units": {},
        "executions": dict.fromkeys(("done", "taken back", "checked", "failed", "milliseconds"), 0),
        "execution_faults": {},
    }


def test_a_counter_that_its_owner_declares_is_told_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = CounterGroup("tried", "tries", ("good", "bad"), "tried  {good:try}{bad:?, {bad} bad}", "all tries")
    monkeypatch.setattr(statistics, "groups", lambda: (tried,))
    mark = tmp_path / "mark.json"
    mark.write_text(json.dumps(statistics.read(tmp_path).as_json(StoreSize(0, 0, 0))))
    statistics.count(tmp_path, "tried", {"good": 2, "bad": 0})
    numbers = stats.since(statistics.read(tmp_path), mark)
    assert numbers.as_json(StoreSize(0, 0, 0))["tries"] == {"good": 2, "bad": 0}
    out = io.StringIO()
    stats.show(replace(numbers, compiles={**numbers.compiles, "hit": 1}), StoreSize(0, 0, 0), "", (), Screen(out, {}))
    assert "tried  2 tries\n" in out.getvalue()
    assert manual.statistics_manual("| `not_kept` |\n| `since` |\n").splitlines()[1] == "| `tries` | all tries |"


def test_comparisons_are_counted_and_are_no_compiles(tmp_path: Path, folds_at: pytest.MonkeyPatch) -> None:
    for number in range(1, 31):
        assert statistics.record_verified(tmp_path, "different" if number % 3 == 0 else "same")
    numbers = statistics.read(tmp_path)
    assert numbers.counted["verified"] == {"same": 20, "different": 10, "varying": 0}
    assert sum(numbers.compiles.values()) == 0


def test_a_log_that_has_grown_is_folded_and_every_count_stays(tmp_path: Path, folds_at: pytest.MonkeyPatch) -> None:
    for number in range(1, 101):
        assert statistics.record(tmp_path, PARTIAL)
        assert total(tmp_path) == number
    assert statistics.read(tmp_path).seconds_saved == 250
    assert (directory(tmp_path) / "totals").exists()
    log = directory(tmp_path) / "log"
    assert not log.exists() or log.stat().st_size < 400
    assert {path.name for path in directory(tmp_path).iterdir()} <= {"lock", "log", "totals"}


def record_many(root: Path, count: int) -> None:
    statistics.FOLD_AT = 400
    for _ in range(count):
        assert statistics.record(root, HIT)


def test_many_processes_at_once_lose_no_count(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=record_many, args=(tmp_path, 100)) for _ in range(12)]
    for process in processes:
        process.start()
    seen = 0
    while any(process.is_alive() for process in processes):
        now = total(tmp_path)
        assert now >= seen, "a reader beside them sees a sum that only grows"
        seen = now
    for process in processes:
        process.join()
        assert process.exitcode == 0
    numbers = statistics.read(tmp_path)
    assert numbers.compiles["hit"] == 1200
    assert numbers.units["gfx90a:xnack+"] == Tally(1200, 0)


def test_zero_beside_running_compiles_counts_each_before_or_after(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=record_many, args=(tmp_path, 200)) for _ in range(4)]
    for process in processes:
        process.start()
    while any(process.is_alive() for process in processes):
        statistics.zero(tmp_path)
        numbers = statistics.read(tmp_path)
        assert numbers.compiles["hit"] == numbers.units["host"].hits == numbers.backend.hits
    for process in processes:
        process.join()
        assert process.exitcode == 0
    statistics.zero(tmp_path, clock=lambda: 1234.5)
    assert total(tmp_path) == 0
    assert statistics.read(tmp_path).since == 1234.5
    statistics.record(tmp_path, HIT)
    assert total(tmp_path) == 1


def test_zero_of_statistics_that_do_not_exist_yet_works(tmp_path: Path) -> None:
    statistics.zero(tmp_path / "new")
    assert total(tmp_path / "new") == 0


@pytest.mark.parametrize("ahead", [1e9, -1e9])
def test_a_clock_that_is_not_the_machines_makes_no_compile_longer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ahead: float
) -> None:
    """As libfaketime does, which leaves /proc as it is."""
    began = time.time()
    for name in ("time", "clock_gettime"):
        real = getattr(time, name)
        monkeypatch.setattr(time, name, lambda *which, real=real: real(*which) + ahead)
    for known in (None, began):
        telling.record(Config(dir=tmp_path), CompileOutcome("miss"), ["clang++"], str(tmp_path), began=known)
    assert 0 < statistics.read(tmp_path).average_seconds["miss"] < 1e8
