"""What a short run leaves out, and what it never does."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sampling import Case, left_out

COMPILERS = ("15", "19")


def matrix(count: int, test: str = "m.py::test_a", **marks: int) -> list[Case]:
    one = Case("m.py", test)
    cases = [replace(one, parameters=str(number), turn=version) for number in range(count) for version in COMPILERS]
    return [replace(case, **marks) for case in cases]  # type: ignore[arg-type]


def run(cases: list[Case]) -> list[tuple[str, str | None]]:
    out = left_out(cases)
    return [(case.parameters, case.turn) for number, case in enumerate(cases) if number not in out]


def test_in_a_matrix_compilers_take_turns() -> None:
    assert run(matrix(4)) == [("0", "15"), ("1", "19"), ("2", "15"), ("3", "19")]


def test_they_take_turns_from_test_to_test() -> None:
    tests = [matrix(1, f"m.py::test_{name}") for name in "abc"]
    assert [version for _, version in run([case for cases in tests for case in cases])] == ["15", "19", "15"]


@pytest.mark.parametrize("count", [1, 2, 9])
def test_a_test_may_ask_for_each_compiler(count: int) -> None:
    assert len(run(matrix(count, every=True))) == 2 * count


def test_three_values_take_turns_too() -> None:
    tests = [[Case("m.py", f"m.py::test_{name}", turn=turn) for turn in "123"] for name in "abcd"]
    assert [turn for _, turn in run([case for cases in tests for case in cases])] == ["1", "2", "3", "1"]


def test_a_case_that_is_skipped_stands_for_no_other() -> None:
    cases = [Case("m.py", "m.py::test_a", str(n), turn) for n in range(4) for turn in (None, "newest")]
    assert len(run(cases)) == len(cases)


def test_a_test_for_one_compiler_stays() -> None:
    cases = [case for case in matrix(5) if case.turn == "19"]
    assert len(run(cases)) == 5


@pytest.mark.parametrize("one_in", [2, 3, 5])
def test_a_sample_has_the_first_case_and_one_of_any_neighbours(one_in: int) -> None:
    for count in range(1, 40):
        cases = run(matrix(count, sampled=one_in))
        kept = sorted({int(parameters) for parameters, _ in cases})
        assert kept[0] == 0
        assert len(kept) == -(-count // one_in)
        assert all(number // one_in == place for place, number in enumerate(kept))
        if len(kept) > len(COMPILERS):
            assert [version for _, version in cases] == list(itertools.islice(itertools.cycle(COMPILERS), len(kept)))


def test_no_column_of_a_table_is_left_out_for_good() -> None:
    for columns in (2, 3, 4):
        assert {int(number) % columns for number, _ in run(matrix(12 * columns, sampled=columns))} == set(
            range(columns)
        )


def test_cases_without_a_compiler_are_sampled_too() -> None:
    cases = [Case("m.py", "m.py::test_a", str(number), sampled=3) for number in range(7)]
    assert [number for number, _ in run(cases)] == ["0", "4", "6"]


SUITE = """\
import pytest
@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", range(6))
def test_it(number): pass
"""


@pytest.mark.parametrize(("full", "more"), [("", ["-n", "1"]), ("", ["-p", "no:xdist"]), ("1", ["-n", "1"])])
def test_a_short_run_says_so(tmp_path: Path, full: str, more: list[str]) -> None:
    tests = Path(__file__).parents[1]
    (tmp_path / "conftest.py").write_bytes((tests / "conftest.py").read_bytes())
    (tmp_path / "test_it.py").write_text(SUITE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = sampled\n")
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TEST_"))}
    env |= {"PYTHONPATH": f"{tests}:{tests.parent / 'scripts'}", "TEST_FULL": full}
    words = [sys.executable, "-m", "pytest", "-q", *more, "-p", "no:cacheprovider", "test_it.py"]
    ended = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    first, *_, last, _ = ended.stdout.splitlines()
    if full:
        assert "6 passed" in ended.stdout
        assert "TEST_FULL" not in ended.stdout
    else:
        assert "2 passed" in ended.stdout
        assert first == "a short run: a sample of large matrices, one compiler for most cases; all with TEST_FULL=1"
        assert last == "a short run: 2 of 6 cases; all with TEST_FULL=1"
