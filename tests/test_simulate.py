"""The simulation of builds with workers elsewhere: what must hold whatever the durations are."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).resolve().parent.parent / "bench"


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.delitem(sys.modules, "simulate", raising=False)
    return importlib.import_module("simulate")


def test_a_chain_waits_for_each_of_its_steps_and_for_the_way(simulate: ModuleType) -> None:
    source = simulate.Source(1.0, {"gfx90a": (2.0, 3.0, 0.5)})
    assert simulate.Machine(2, 0, 0.02, jobs=1).build([source]) == pytest.approx(5.5)
    assert simulate.Machine(1, 0, 0.02, jobs=1).build([source]) == pytest.approx(6.5)
    # The first arch's back end begins at 3 s, when the second one's front end has the slot here: it goes away.
    two = simulate.Source(1.0, {"a": (2.0, 6.0, 0.5), "b": (2.0, 1.0, 0.5)})
    assert simulate.Machine(1, 1, 0.02, jobs=1).build([two]) == pytest.approx(1 + 2 + 6 + 0.06 + 0.5)


def test_no_build_is_faster_than_any_order_could_be(simulate: ModuleType) -> None:
    known = {
        "one": simulate.Source(1.1, dict.fromkeys("abc", (0.9, 2.2, 0.1))),
        "two": simulate.Source(0.4, {"a": (0.5, 0.3, 0.1)}),
    }
    for sources in simulate.builds(known, 20).values():
        runs = [simulate.simulate(sources, 4, workers, 0.02) for workers in simulate.WORKERS]
        assert all(run.efficiency <= 1.0001 and run.possible <= 1.0001 for run in runs)
        assert runs[-1].seconds <= runs[0].seconds


def test_results_say_that_they_are_simulated(simulate: ModuleType, tmp_path: Path) -> None:
    assert simulate.main(["--out", str(tmp_path), "--sources", "4"]) == 0
    assert json.loads((tmp_path / "workers.json").read_text())["simulation"] is True
    assert "No compiler has run for these figures" in (tmp_path / "workers.md").read_text()
