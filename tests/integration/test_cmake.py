"""The CMake module: which targets and languages get hipcache before their compiler, by each way in, and which not.

TEST_FULL=1 (`make test-full`) runs every combination; otherwise a sample of them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cmake_project import (
    ARCHES,
    CMAKES,
    HIP_IN_SHORT,
    HIPCACHE,
    MODULE_PATH,
    WAYS_IN,
    Answer,
    Project,
    full,
    hip_source,
    simple_project,
)

SAMPLE = {
    ("include", "debian", "Ninja"),
    ("find_package", "newest", "Unix Makefiles"),
    ("top_level_includes", "debian", "Unix Makefiles"),
    ("top_level_includes", "newest", "Ninja"),
}


@pytest.mark.parametrize(
    ("way", "cmake", "generator"),
    [
        pytest.param(way, cmake, generator, marks=() if (way, cmake, generator) in SAMPLE else full)
        for way in WAYS_IN
        for cmake in CMAKES
        for generator in ("Ninja", "Unix Makefiles")
    ],
)
def test_each_way_in_puts_hipcache_before_the_compiler(tmp_path: Path, way: str, cmake: str, generator: str) -> None:
    """include(), find_package() and CMAKE_PROJECT_TOP_LEVEL_INCLUDES come to the same, without a warning."""
    line, option = WAYS_IN[way]
    project = Project(tmp_path, cmake, generator).write(simple_project(line))
    answer = project.configure(option, ARCHES)
    assert project.launchers() == {"kernels": str(HIPCACHE)}
    assert answer.warnings == 0
    assert answer.text.count("HipCache:") == 1


@pytest.fixture(scope="module", params=["debian", pytest.param("newest", marks=full)])
def mixed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Answer]:
    """A project with every kind of target around the include, configured."""
    files = {
        "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.21)
project(mixed LANGUAGES CXX HIP)
add_library(early STATIC one.hip)
add_subdirectory(before)
include(HipCache)
add_library(later STATIC one.hip)
add_subdirectory(after)
add_library(by_property STATIC one.cxx)
set_source_files_properties(one.cxx PROPERTIES LANGUAGE HIP)
add_library(own STATIC one.hip)
set_target_properties(own PROPERTIES HIP_COMPILER_LAUNCHER "env;OWN=1")
add_library(refused STATIC one.hip)
set_target_properties(refused PROPERTIES HIP_COMPILER_LAUNCHER "")
add_library(plain_cxx STATIC plain.cxx)
add_library(headers INTERFACE)
add_custom_target(nothing_to_compile)
cmake_language(DEFER CALL add_library deferred STATIC one.hip)
""",
        "before/CMakeLists.txt": "add_library(sub_before STATIC ../one.hip)\nadd_subdirectory(deep)\n",
        "before/deep/CMakeLists.txt": "add_library(sub_deep OBJECT ../../one.hip)\n",
        "after/CMakeLists.txt": """\
add_library(sub_after SHARED ../one.hip)
set_target_properties(sub_after PROPERTIES HIP_ARCHITECTURES gfx1030)
include(HipCache)
add_library(sub_own_include STATIC ../one.hip)
""",
        "hip_in_short.hpp": HIP_IN_SHORT,
        "one.hip": hip_source("one"),
        "one.cxx": hip_source("one"),
        "plain.cxx": "int plain() { return 1; }\n",
    }
    project = Project(tmp_path_factory.mktemp("mixed"), request.param).write(files)
    return project, project.configure(MODULE_PATH, ARCHES)


class TestTargets:
    """Every HIP target of a project is covered, wherever and whenever it was made, unless it says otherwise."""

    @pytest.mark.parametrize(
        "target",
        [
            pytest.param("early", id="made before the include"),
            pytest.param("later", id="made after the include"),
            pytest.param("sub_before", id="in a subdirectory before the include"),
            pytest.param("sub_deep", id="in a subdirectory of a subdirectory"),
            pytest.param("sub_after", id="in a subdirectory after the include"),
            pytest.param("sub_own_include", id="in a subdirectory that includes the module again"),
            pytest.param("by_property", id="with a source whose LANGUAGE is HIP"),
            pytest.param("deferred", id="made by a deferred call"),
        ],
    )
    def test_covered(self, mixed: tuple[Project, Answer], target: str) -> None:
        project, _ = mixed
        assert project.launchers()[target] == str(HIPCACHE)

    def test_a_targets_own_launcher_is_kept_and_named(self, mixed: tuple[Project, Answer]) -> None:
        project, answer = mixed
        assert project.launchers()["own"] == "env OWN=1"
        assert "HipCache: not cached, HIP_COMPILER_LAUNCHER is already 'env OWN=1': own" in answer.text

    def test_an_empty_launcher_keeps_a_target_out(self, mixed: tuple[Project, Answer]) -> None:
        project, answer = mixed
        assert project.launchers()["refused"] == ""
        assert "HipCache: not cached, HIP_COMPILER_LAUNCHER is set to nothing: refused" in answer.text

    def test_one_line_tells_compiler_architectures_and_store(self, mixed: tuple[Project, Answer]) -> None:
        project, answer = mixed
        store = rf"store {project.root}/store \(\d+\.\d MiB of 10\.0 GiB\)"
        line = rf"-- HipCache: clang\+\+ 15\.0\.6, gfx906 gfx90a gfx1030, {store}"
        assert len(re.findall(line, answer.text)) == 1

    def test_only_the_option_is_written_to_cmakes_cache(self, mixed: tuple[Project, Answer]) -> None:
        project, _ = mixed
        text = (project.build_dir / "CMakeCache.txt").read_text()
        assert re.findall(r"^\w*hipcache\w*:.*", text, re.MULTILINE | re.IGNORECASE) == ["HIPCACHE:BOOL=ON"]
        assert "LAUNCHER" not in text
        assert str(HIPCACHE) not in text

    def test_a_second_configure_says_and_does_the_same(self, mixed: tuple[Project, Answer]) -> None:
        project, answer = mixed
        launchers = project.launchers()
        again = project.configure()
        told = re.findall(r"HipCache: .*?(?= -- |$)", answer.text)
        assert re.findall(r"HipCache: .*?(?= -- |$)", again.text) == told
        assert project.launchers() == launchers


@pytest.mark.parametrize("way", list(WAYS_IN))
def test_off_leaves_nothing_behind_and_on_comes_back(tmp_path: Path, way: str) -> None:
    """HIPCACHE=OFF, ON and OFF again on one build directory: the launcher follows, and none stays in the cache."""
    line, option = WAYS_IN[way]
    project = Project(tmp_path, "debian").write(simple_project(line))
    answer = project.configure(option, ARCHES, "-DHIPCACHE=OFF")
    assert "-- HipCache: off (HIPCACHE=OFF)" in answer.text
    assert answer.warnings == 0
    assert project.launchers() == {"kernels": ""}

    project.configure("-DHIPCACHE=ON")
    assert project.launchers() == {"kernels": str(HIPCACHE)}

    project.configure("-DHIPCACHE=OFF")
    assert project.launchers() == {"kernels": ""}
    assert "LAUNCHER" not in (project.build_dir / "CMakeCache.txt").read_text()


def test_off_is_respected_when_the_project_sets_it_as_a_variable(tmp_path: Path) -> None:
    project = Project(tmp_path).write(simple_project(before="set(HIPCACHE OFF)"))
    project.configure(MODULE_PATH, ARCHES)
    assert project.launchers() == {"kernels": ""}


def test_off_points_out_a_hipcache_launcher_of_the_users_own(tmp_path: Path) -> None:
    project = Project(tmp_path).write(simple_project())
    launcher = f"-DCMAKE_HIP_COMPILER_LAUNCHER={HIPCACHE}"
    answer = project.configure(MODULE_PATH, ARCHES, "-DHIPCACHE=OFF", launcher)
    assert "Remove it with -UCMAKE_HIP_COMPILER_LAUNCHER" in answer.text


class TestUsersLauncher:
    """A launcher that is there already stays, with a message, unless it is hipcache itself."""

    @pytest.mark.parametrize("way", list(WAYS_IN))
    def test_as_a_variable(self, tmp_path: Path, way: str) -> None:
        line, option = WAYS_IN[way]
        project = Project(tmp_path).write(simple_project(line))
        answer = project.configure(option, ARCHES, "-DCMAKE_HIP_COMPILER_LAUNCHER=/usr/bin/env;A=1")
        assert project.launchers() == {"kernels": "/usr/bin/env A=1"}
        assert "-- HipCache: not cached, HIP_COMPILER_LAUNCHER is already '/usr/bin/env A=1': kernels" in answer.text

    @pytest.mark.parametrize("way", list(WAYS_IN))
    def test_in_the_environment(self, tmp_path: Path, way: str) -> None:
        line, option = WAYS_IN[way]
        project = Project(tmp_path, environ={"CMAKE_HIP_COMPILER_LAUNCHER": "/usr/bin/env"})
        answer = project.write(simple_project(line)).configure(option, ARCHES)
        assert project.launchers() == {"kernels": "/usr/bin/env"}
        assert "-- HipCache: not cached, HIP_COMPILER_LAUNCHER is already '/usr/bin/env': kernels" in answer.text

    def test_that_is_hipcache_already_is_used_without_a_word(self, tmp_path: Path) -> None:
        project = Project(tmp_path).write(simple_project())
        launcher = f"-DCMAKE_HIP_COMPILER_LAUNCHER=env;A=1;{HIPCACHE}"
        answer = project.configure(MODULE_PATH, ARCHES, launcher)
        assert project.launchers() == {"kernels": f"env A=1 {HIPCACHE}"}
        assert "not cached" not in answer.text
        assert "HipCache: clang++ 15.0.6" in answer.text

    def test_that_is_empty_counts_as_none(self, tmp_path: Path) -> None:
        project = Project(tmp_path).write(simple_project(before="add_library(early STATIC one.hip)"))
        project.configure(MODULE_PATH, ARCHES, "-DCMAKE_HIP_COMPILER_LAUNCHER=")
        assert project.launchers() == {"early": str(HIPCACHE), "kernels": str(HIPCACHE)}


@pytest.mark.parametrize("cmake", ["newest", pytest.param("debian", marks=full)])
def test_a_language_that_is_enabled_in_subdirectories_alone_is_covered(tmp_path: Path, cmake: str) -> None:
    """As in rocm-examples: each program is a project of its own, with HIP by enable_language() and by property."""
    one = """\
project({0} LANGUAGES CXX)
enable_language(HIP)
add_executable({0} main.cpp ../common.cpp)
set_source_files_properties(main.cpp PROPERTIES LANGUAGE HIP)
"""
    project = Project(tmp_path, cmake).write(
        {
            "CMakeLists.txt": "cmake_minimum_required(VERSION 3.21)\nproject(all LANGUAGES CXX)\n"
            "add_subdirectory(first)\nadd_subdirectory(second)\nadd_library(plain STATIC common.cpp)\n",
            "common.cpp": "int common() { return 1; }\n",
            **{f"{name}/CMakeLists.txt": one.format(name) for name in ("first", "second")},
            **{f"{name}/main.cpp": "int main() { return 0; }\n" for name in ("first", "second")},
        }
    )
    answer = project.configure(WAYS_IN["top_level_includes"][1], ARCHES)
    assert "HipCache: clang++ 15.0.6, gfx906 gfx90a, store" in answer.text, answer.text
    assert project.launchers() == {"first": str(HIPCACHE), "second": str(HIPCACHE)}
