"""The benchmark's own arithmetic."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import report
from build import CODE_OBJECT, ninja_file
from result import Machine, Result, Sample, Subject, paired_ratios
from scenario import NAMES, SCENARIOS, difference, disagreements
from target import SMALL, TARGETS, Verdict, targets_of, verdict
from tool import TOOLS, base_environment, flatten
from trouble import BenchError
from workload import DEBIAN_ARCHS, WORKLOADS, Architectures, Compile, Edit, Workload

SETS = Architectures(base=("gfx906", "gfx90a"), many=("gfx900", "gfx906", "gfx90a"), added="gfx1030", edited="gfx90a")
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def sample(scenario: str, tool: str, wall: float, *, turn: int = 0, take: int = 0) -> Sample:
    return Sample("alone", scenario, tool, turn, take, wall, wall * 2)


def result(*samples: Sample) -> Result:
    tools = dict.fromkeys(sample.tool for sample in samples)
    return Result(
        date="2026-01-31T12:00:00+00:00",
        quick=False,
        rounds=1,
        machine=Machine("a CPU", 8, 2, 16, "a system", 0.1),
        workload=Subject.of(WORKLOADS["rocprim"]),
        versions=dict.fromkeys(tools, "1.0"),
        samples=samples,
    )


def as_it_should_be(name: str) -> dict[str, int]:
    """Counters of two sources that agree with the scenario."""
    scenario = BY_NAME[name]
    compiled = scenario.compiled(SETS)
    counted = {f"units.{arch}.{'misses' if arch in compiled else 'hits'}": 2 for arch in scenario.archs(SETS)}
    jobs = 2 * len(compiled)
    outcome = {"cold": "miss", "warm": "hit", "subset": "hit"}.get(name, "partial")
    front = 2 * len(SETS.base) if scenario.edit else jobs
    return {**counted, "jobs.backend.misses": jobs, "jobs.frontend.misses": front, f"compiles.{outcome}": 2}


def test_each_scenario_compiles_for_the_architectures_that_its_name_says() -> None:
    """The added architecture is built on top of the large set, everything else for the base set."""
    assert BY_NAME["added"].archs(SETS) == ("gfx900", "gfx906", "gfx90a", "gfx1030")
    assert all(BY_NAME[name].archs(SETS) == SETS.base for name in NAMES if name != "added")
    assert BY_NAME["subset"].heading(DEBIAN_ARCHS) == "4 of 8 architectures"


@pytest.mark.parametrize("name", NAMES)
def test_counters_that_fit_the_scenario_raise_no_complaint(name: str) -> None:
    """What the engine should count is accepted."""
    assert disagreements(BY_NAME[name], as_it_should_be(name), 2, SETS) == []


@pytest.mark.parametrize("name", NAMES)
def test_one_back_end_too_many_or_too_few_is_a_complaint(name: str) -> None:
    """A back end is what the cache is there to save: its count is exact in every scenario."""
    for change in (-1, 1):
        counted = as_it_should_be(name)
        counted["jobs.backend.misses"] += change
        assert len(disagreements(BY_NAME[name], counted, 2, SETS)) == 1


def test_a_compile_that_was_passed_through_is_a_complaint() -> None:
    """A build that hipcache left to the compiler measures nothing of it."""
    counted = {**as_it_should_be("host"), "compiles.passed_through": 1}
    assert disagreements(BY_NAME["host"], counted, 2, SETS) == ["compiles.passed_through is 1 instead of 0"]


def test_only_counters_that_moved_are_kept() -> None:
    """Those that are new count from nothing."""
    assert difference({"a": 1, "b": 5}, {"a": 4, "b": 5, "c": 2}) == {"a": 3, "c": 2}


def test_whole_numbers_of_a_json_value_get_dotted_names() -> None:
    """Fractions, truth values and texts are no counters."""
    told = {"units": {"gfx90a": {"hits": 3}}, "seconds_saved": 1.5, "on": True, "name": "x"}
    assert flatten(told) == {"units.gfx90a.hits": 3}


def test_ratios_are_made_between_builds_of_one_turn() -> None:
    """Not between medians: a slow minute hits both partners."""
    ours = [sample("cold", "hipcache", 2, turn=0), sample("cold", "hipcache", 30, turn=1)]
    plain = [sample("cold", "plain", 4, turn=0), sample("cold", "plain", 40, turn=1)]
    assert paired_ratios(ours, plain) == [0.5, 0.75]


def test_a_lone_partner_serves_all_takes_of_its_round() -> None:
    """Warm builds are repeated within a round, plain clang's cold build is not."""
    ours = [sample("warm", "hipcache", wall, take=take) for take, wall in enumerate((1, 2, 3))]
    assert paired_ratios(ours, [sample("cold", "plain", 10)]) == [0.1, 0.2, 0.3]


def test_plain_clang_stands_in_where_it_does_equal_work() -> None:
    """Its cold build is its warm build; a build of its own comes first."""
    cold, own = sample("cold", "plain", 10), sample("warm", "plain", 8)
    assert result(cold).of("alone", "warm", "plain") == [cold]
    assert result(cold, own).of("alone", "warm", "plain") == [own]
    assert result(sample("cold", "ccache", 10)).of("alone", "warm", "ccache") == []


def test_every_stand_in_compiles_for_as_many_architectures() -> None:
    """Otherwise the work is not equal."""
    for scenario in SCENARIOS:
        if scenario.plain_as:
            assert BY_NAME[scenario.plain_as].archs(SETS) == scenario.archs(SETS)


def test_a_target_is_met_missed_or_open() -> None:
    """What was not measured neither passes nor fails."""
    target = next(target for target in TARGETS if (target.form, target.scenario) == ("alone", "cold"))
    plain = sample("cold", "plain", 10)
    assert verdict(target, result(plain, sample("cold", "hipcache", 6))) == (0.6, Verdict.PASS)
    assert verdict(target, result(plain, sample("cold", "hipcache", 7))) == (0.7, Verdict.FAIL)
    assert verdict(target, result(plain)) == (None, Verdict.OPEN)


def test_targets_name_known_scenarios() -> None:
    """A renamed scenario cannot leave a target behind."""
    assert {target.scenario for target in TARGETS + SMALL} <= set(NAMES)
    assert {target.tool for target in TARGETS + SMALL} <= set(TOOLS)


def test_small_sources_have_targets_of_their_own() -> None:
    small = result(sample("cold", "plain", 10))
    assert targets_of(small) == TARGETS
    small = dataclasses.replace(small, workload=dataclasses.replace(small.workload, name="small"))
    assert targets_of(small) == SMALL


def test_a_result_survives_the_file(tmp_path: Path) -> None:
    """What is read is what was written."""
    written = result(sample("cold", "plain", 10), sample("cold", "hipcache", 4))
    path = tmp_path / "results.json"
    path.write_text(written.to_json())
    assert Result.load(path) == written
    assert json.loads(path.read_text())["format"] == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99}', '{"format": 1, "samples": 3}'])
def test_a_file_that_is_no_result_is_refused_by_name(tmp_path: Path, text: str) -> None:
    """One error, whatever is wrong with it."""
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(BenchError, match=r"other\.json"):
        Result.load(path)


def test_the_report_shows_times_ratios_and_verdicts() -> None:
    """A row for each scenario, a column for each tool; the targets below."""
    shown = report.render(
        result(
            sample("cold", "plain", 10),
            sample("cold", "hipcache", 4),
            sample("warm", "hipcache", 0.05),
            sample("host", "plain", 9),
        )
    )
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in shown.splitlines()]
    assert ["scenario", "plain clang", "hipcache", "hipcache / plain"] in lines
    assert ["cold, 4 architectures", "10.0 s", "4.0 s", "0.40"] in lines
    assert ["warm", "10.0 s", "50 ms", "0.005"] in lines
    assert ["cold, 4 architectures", "20.0 s", "8.0 s", "0.40"] in lines
    assert ["cold, 4 architectures", "alone", "hipcache", "time", "plain clang", "0.60", "0.40", "pass"] in lines
    assert ["host-only edit", "alone", "hipcache", "time", "plain clang", "0.30", "-", "not measured"] in lines


def test_the_columns_of_a_table_are_aligned() -> None:
    """It is read on a terminal as often as in a browser."""
    assert report.table(["a", "b"], [["long", "1"]]).splitlines() == ["| a    |  b |", "| ---- | -: |", "| long |  1 |"]


def test_an_edit_that_does_not_find_its_place_once_is_refused() -> None:
    """A workload whose sources moved on says so."""
    assert Edit("f", "", "\nend").apply("text") == "text\nend"
    assert Edit("f", "b", "c").apply("abd") == "acd"
    for text in ("a", "bb"):
        with pytest.raises(BenchError, match="not once"):
            Edit("f", "b", "c").apply(text)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda workload: workload.name)
def test_every_workload_fits_its_sources(workload: Workload, tmp_path: Path) -> None:
    """Each edit finds its place, and the architecture sets fit together."""
    workload.prepare(tmp_path)
    for edits in workload.edits.values():
        for edit in edits:
            edit.apply((tmp_path / edit.file).read_text())
    sets = workload.archs
    assert set(sets.base) <= set(sets.many)
    assert sets.added not in sets.many
    assert sets.edited in sets.base
    assert workload.alone in workload.sources
    assert {scenario.edit for scenario in SCENARIOS if scenario.edit} <= set(workload.edits)


def test_settings_of_the_user_do_not_reach_the_builds() -> None:
    """Nor does the job server of `make bench`."""
    env = base_environment({"PATH": "/bin", "CCACHE_DISABLE": "1", "HIPCACHE_DIR": "/x", "MAKEFLAGS": "-j --jobserver"})
    assert env == {"PATH": "/bin", "HIP_PLATFORM": "amd", "LC_ALL": "C"}


def test_ninja_gets_paths_and_commands_escaped() -> None:
    """A dollar sign reaches the compiler as one, a space does not split a path."""
    text = ninja_file([Compile("a b.hip", "a b.hip.o", "a b.hip.o.d", ("clang++", "-DX=$1", "/s/a b.hip"))])
    assert "build a$ b.hip.o: hip /s/a$ b.hip" in text
    assert "argv = clang++ '-DX=$$1' '/s/a b.hip'" in text


def test_code_objects_are_found_by_their_name_in_the_fat_binary() -> None:
    """With target features, too."""
    content = b"\0host-x86_64-unknown-linux\0hipv4-amdgcn-amd-amdhsa--gfx906\0hip-amdgcn-amd-amdhsa--gfx90a:xnack+\0"
    assert CODE_OBJECT.findall(content) == [b"gfx906", b"gfx90a"]
