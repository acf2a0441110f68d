"""What a build by CMake takes from the cache: units counted from a cold build through edits."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cmake_project import ARCHES, MODULE_PATH, MODULES, WAYS_IN, Project, full, hip_source, simple_project
from hip import statistics


@dataclass(frozen=True)
class Tally:
    hits: int
    misses: int


NOTHING = Tally(0, 0)
Counters = dict[str, Tally]


def counters(project: Project) -> Counters:
    """Units and jobs of `hipcache stats --json` since the last call."""
    document: Any = statistics(project.clean_environ(), "--zero")
    assert document["compiles"]["passed_through"] == document["compiles"]["failed"] == 0
    counts = document["units"] | document["jobs"]
    return {name: Tally(count["hits"], count["misses"]) for name, count in counts.items()}


@pytest.mark.parametrize("cmake", ["newest", pytest.param("debian", marks=full)])
def test_the_device_link_of_a_target_with_relocatable_device_code_is_cached(tmp_path: Path, cmake: str) -> None:
    way = """
add_executable(program two.hip)
set_property(TARGET kernels program PROPERTY COMPILE_OPTIONS -fgpu-rdc)
target_link_options(program PRIVATE -fgpu-rdc -Wl,--unresolved-symbols=ignore-all)
target_link_libraries(program PRIVATE kernels)
"""
    project = Project(tmp_path, cmake).write(simple_project(after=way))
    project.write({"two.hip": hip_source("two") + "int main() { return two(nullptr); }\n"})
    project.configure(MODULE_PATH, ARCHES)
    project.build()
    assert counters(project)["link"] == Tally(0, 2)
    project.write({"two.hip": hip_source("two") + "int main() { return two(nullptr) + 1; }\n"})
    project.build()
    assert counters(project)["link"] == Tally(2, 0)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("newest", "Ninja"), id="newest-Ninja"),
        pytest.param(("debian", "Unix Makefiles"), id="debian-Makefiles"),
        pytest.param(("debian", "Ninja"), id="debian-Ninja", marks=full),
        pytest.param(("newest", "Unix Makefiles"), id="newest-Makefiles", marks=full),
    ],
)
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Counters]]:
    """Two sources through the five steps of the main job: what each of them hit and compiled."""
    files = simple_project(after="target_sources(kernels PRIVATE two.hip)") | {"two.hip": hip_source("two")}
    project = Project(tmp_path_factory.mktemp("story"), *request.param).write(files)
    told = {}

    def step(name: str, arches: str) -> None:
        project.configure(MODULE_PATH, f"-DCMAKE_HIP_ARCHITECTURES={arches}", "-DCMAKE_BUILD_TYPE=Release")
        project.build()
        told[name] = counters(project)

    step("cold", "gfx906;gfx90a")
    project.clean()
    step("warm", "gfx906;gfx90a")
    step("added", "gfx906;gfx90a;gfx1030")
    step("subset", "gfx1030")
    for source in ("one.hip", "two.hip"):
        path = project.root / source
        path.write_text(path.read_text().replace("return 1; // host", "return 2; // host, edited"))
    step("edited", "gfx906;gfx90a")
    yield told
    shutil.rmtree(project.root)


class TestMainJob:
    """A project of two sources builds through CMake, each architecture cached on its own."""

    def test_a_cold_build_compiles_each_architecture(self, story: dict[str, Counters]) -> None:
        cold = story["cold"]
        assert (cold["gfx906"], cold["gfx90a"], cold["host"]) == (Tally(0, 2), Tally(0, 2), Tally(0, 2))

    def test_a_second_build_compiles_nothing(self, story: dict[str, Counters]) -> None:
        warm = story["warm"]
        assert (warm["gfx906"], warm["gfx90a"], warm["host"]) == (Tally(2, 0), Tally(2, 0), Tally(2, 0))

    def test_one_architecture_more_compiles_that_one_only(self, story: dict[str, Counters]) -> None:
        added = story["added"]
        assert added["gfx1030"] == Tally(0, 2)
        assert (added["gfx906"], added["gfx90a"], added["host"]) == (Tally(2, 0), Tally(2, 0), Tally(2, 0))

    def test_a_subset_compiles_nothing(self, story: dict[str, Counters]) -> None:
        subset = story["subset"]
        assert (subset["gfx1030"], subset["host"]) == (Tally(2, 0), Tally(2, 0))
        assert subset.get("gfx906", NOTHING) == subset.get("gfx90a", NOTHING) == NOTHING

    def test_a_host_only_edit_runs_no_device_back_end(self, story: dict[str, Counters]) -> None:
        edited = story["edited"]
        assert edited["host"] == Tally(0, 2)
        assert edited["backend"].misses == 0
        assert (edited["gfx906"], edited["gfx90a"]) == (Tally(2, 0), Tally(2, 0))


@pytest.mark.parametrize(("cmake", "generator"), [("debian", "Ninja"), ("newest", "Unix Makefiles")])
def test_a_project_that_was_not_edited_builds_cold_and_warm(tmp_path: Path, cmake: str, generator: str) -> None:
    line, option = WAYS_IN["top_level_includes"]
    project = Project(tmp_path, cmake, generator).write(simple_project(line))
    project.configure(option, ARCHES)
    for tally in (Tally(0, 1), Tally(1, 0)):
        project.build()
        told = counters(project)
        assert (told["gfx906"], told["gfx90a"], told["host"]) == (tally, tally, tally)
        project.clean()


def test_the_example_builds_cold_and_warm(tmp_path: Path) -> None:
    """For one architecture and without optimization: its seven sources read all of rocPRIM."""
    shutil.copytree(MODULES.parent / "examples" / "cmake", tmp_path, dirs_exist_ok=True)
    project = Project(tmp_path)
    project.configure(MODULE_PATH, "-DCMAKE_HIP_ARCHITECTURES=gfx906", "-DCMAKE_HIP_FLAGS_RELEASE=-O0")
    for hits in (0, 7):
        project.build()
        units: Any = statistics(project.clean_environ())["units"]
        assert {name: (tally["hits"], tally["misses"]) for name, tally in units.items()} == {
            "gfx906": (hits, 7),
            "host": (hits, 7),
            "link": (0, 0),
        }
        project.clean()
    project.build()
    assert project.run(project.build_dir / "columns-check").returncode == 0
