"""The CMake module against real CMake (Debian's and the newest), Ninja and Makefiles, and real clang.

TEST_FULL=1 (`make test-full`) runs every combination; otherwise a sample of them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cmake_project import (
    ARCHES,
    CMAKES,
    HIP_IN_SHORT,
    HIPCACHE,
    MODULE_PATH,
    MODULES,
    PROGRAMS,
    Answer,
    Project,
    hip_source,
    simple_project,
)
from hip import statistics

FULL = bool(os.environ.get("TEST_FULL"))
full = pytest.mark.skipif(not FULL, reason="one more combination: make test-full")

WAYS_IN = {
    "include": ("include(HipCache)", MODULE_PATH),
    "find_package": ("find_package(HipCache 1.0 REQUIRED)", f"-DHipCache_DIR={MODULES}"),
    "top_level_includes": ("", f"-DCMAKE_PROJECT_TOP_LEVEL_INCLUDES={MODULES / 'HipCache.cmake'}"),
    "project_include": ("", f"-DCMAKE_PROJECT_INCLUDE={MODULES / 'HipCache.cmake'}"),
}
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
        line = (
            rf"-- HipCache: clang\+\+ 15\.0\.6, gfx906 gfx90a gfx1030, store {project.root}/store \(0\.0 of 10\.0 GiB\)"
        )
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


class TestWarnings:
    """What defeats the cache is said at configure time, and nothing else is."""

    @pytest.mark.parametrize(
        ("before", "after", "options", "expected"),
        [
            pytest.param("", "", ["-DCMAKE_HIP_ARCHITECTURES=OFF"], "HIP_ARCHITECTURES is OFF for kernels", id="arch"),
            pytest.param(
                "",
                "set_target_properties(kernels PROPERTIES HIP_ARCHITECTURES OFF)",
                [ARCHES],
                "HIP_ARCHITECTURES is OFF for kernels",
                id="arch of a target",
            ),
            pytest.param("", "", [ARCHES, "-DCMAKE_UNITY_BUILD=ON"], "UNITY_BUILD is on for kernels", id="unity"),
            pytest.param(
                "",
                "set_target_properties(kernels PROPERTIES UNITY_BUILD ON)",
                [ARCHES],
                "UNITY_BUILD is on for kernels",
                id="unity of a target",
            ),
            pytest.param(
                "",
                'set_property(GLOBAL PROPERTY RULE_LAUNCH_COMPILE "ccache")',
                [ARCHES],
                "RULE_LAUNCH_COMPILE puts 'ccache' in front of hipcache",
                id="rule launcher",
            ),
            pytest.param(
                "",
                'set_property(DIRECTORY PROPERTY RULE_LAUNCH_COMPILE "time -v")',
                [ARCHES],
                "RULE_LAUNCH_COMPILE puts 'time -v' in front of hipcache",
                id="rule launcher of a directory",
            ),
            pytest.param(
                "",
                'set_property(TARGET kernels PROPERTY RULE_LAUNCH_COMPILE "/opt/sccache")',
                [ARCHES],
                "RULE_LAUNCH_COMPILE puts '/opt/sccache' in front of hipcache",
                id="rule launcher of a target",
            ),
            pytest.param(
                'string(APPEND CMAKE_HIP_FLAGS " -save-temps=obj")',
                "",
                [ARCHES],
                "the HIP flags contain -save-temps=obj",
                id="save-temps",
            ),
            pytest.param(
                "",
                "target_compile_options(kernels PRIVATE $<$<COMPILE_LANGUAGE:HIP>:-save-temps=cwd>)",
                [ARCHES],
                "the HIP flags contain -save-temps=cwd",
                id="save-temps of a target",
            ),
        ],
    )
    def test_said(self, tmp_path: Path, before: str, after: str, options: list[str], expected: str) -> None:
        project = Project(tmp_path).write(simple_project(before=before, after=after))
        answer = project.configure(MODULE_PATH, *options)
        assert f"HipCache: {expected}" in answer.text
        assert answer.warnings == 1

    @pytest.mark.parametrize(
        ("before", "options"),
        [
            pytest.param("", [ARCHES, "-DCMAKE_BUILD_TYPE=Release"], id="ordinary project"),
            pytest.param(
                'set_property(GLOBAL PROPERTY RULE_LAUNCH_COMPILE "/usr/bin/ctest --launch --")', [ARCHES], id="ctest"
            ),
            pytest.param(
                'string(APPEND CMAKE_HIP_FLAGS " --offload-arch=gfx906,gfx90a")',
                ["-DCMAKE_HIP_ARCHITECTURES=OFF"],
                id="architectures in the flags",
            ),
        ],
    )
    def test_not_said(self, tmp_path: Path, before: str, options: list[str]) -> None:
        project = Project(tmp_path).write(simple_project(before=before))
        answer = project.configure(MODULE_PATH, *options)
        assert answer.warnings == 0, answer.text

    @pytest.mark.parametrize("way", ["include", "top_level_includes"])
    def test_without_the_hip_language(self, tmp_path: Path, way: str) -> None:
        line, option = WAYS_IN[way]
        text = f"cmake_minimum_required(VERSION 3.21)\nproject(none LANGUAGES NONE)\n{line}\n"
        answer = Project(tmp_path).write({"CMakeLists.txt": text}).configure(option)
        assert "HipCache: the language HIP is not enabled" in answer.text

    def test_a_generator_without_launchers(self, tmp_path: Path) -> None:
        """Xcode is not to be had here; the module asks CMAKE_GENERATOR and nothing else."""
        files = simple_project(before='set(CMAKE_GENERATOR "Xcode")')
        project = Project(tmp_path).write(files)
        answer = project.configure(MODULE_PATH, ARCHES)
        assert "HipCache: the generator 'Xcode' runs no compiler launchers" in answer.text
        assert project.launchers() == {"kernels": ""}

    def test_another_platform_is_left_alone(self, tmp_path: Path) -> None:
        text = """\
cmake_minimum_required(VERSION 3.21)
project(none LANGUAGES NONE)
set(CMAKE_HIP_PLATFORM nvidia)
include(HipCache)
"""
        answer = Project(tmp_path).write({"CMakeLists.txt": text}).configure(MODULE_PATH)
        assert "HipCache: CMAKE_HIP_PLATFORM is 'nvidia', hipcache caches 'amd' only: off" in answer.text
        assert answer.warnings == 0


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


def fake_hipcache(path: Path, body: str = 'exec "$@"') -> Path:
    """A program that answers --version and runs the compiler, where the real one would be too much."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exit 0\n{body}\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("way", ["include", "top_level_includes"])
def test_an_architecture_that_the_compiler_does_not_know_is_told_at_configure(tmp_path: Path, way: str) -> None:
    way_in, how = WAYS_IN[way]
    answer = Project(tmp_path).write(simple_project(way_in)).try_configure(how, "-DCMAKE_HIP_ARCHITECTURES=gfx90f")
    assert answer.status != 0
    assert "gfx90f" in answer.text


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("HIP_ARCHITECTURES gfx906 gfx1100", "cannot find ROCm device library for gfx1100"),
        ("COMPILE_OPTIONS --no-such-option", "no-such-option"),
    ],
)
def test_what_the_compiler_cannot_do_is_said_once(tmp_path: Path, setting: str, said: str) -> None:
    """CMake itself tries the compiler with other flags."""
    project = Project(tmp_path).write(simple_project(after=f"set_property(TARGET kernels PROPERTY {setting})"))
    project.configure(MODULE_PATH, ARCHES)
    done = project.run(CMAKES["newest"], "--build", project.build_dir)
    assert done.returncode != 0
    errors = [line for line in done.stdout.splitlines() if "error: " in line]
    assert len(errors) == 1
    assert said in errors[0]


class TestProgram:
    """The module finds the hipcache that it was installed with, and a build goes on without any."""

    @pytest.fixture
    def without_hipcache(self, tmp_path: Path) -> Callable[[], Project]:
        """A project whose PATH has no hipcache (nor our Ninja), and a copy of the module in a prefix of its own."""
        shutil.copytree(MODULES, tmp_path / "prefix" / "share" / "cmake" / "HipCache")

        def make() -> Project:
            project = Project(tmp_path / "project", environ={"PATH": "/usr/bin:/bin"})
            return project.write(simple_project())

        return make

    @staticmethod
    def options(tmp_path: Path) -> list[str]:
        return [
            f"-DCMAKE_MODULE_PATH={tmp_path / 'prefix' / 'share' / 'cmake' / 'HipCache'}",
            f"-DCMAKE_MAKE_PROGRAM={PROGRAMS / 'ninja'}",
            ARCHES,
        ]

    def test_beside_the_module(self, tmp_path: Path, without_hipcache: Callable[[], Project]) -> None:
        program = fake_hipcache(tmp_path / "prefix" / "bin" / "hipcache")
        project = without_hipcache()
        answer = project.configure(*self.options(tmp_path))
        assert project.launchers() == {"kernels": str(program)}
        assert "HipCache: clang++ 15.0.6, gfx906 gfx90a --" in answer.text, (
            "no store in the line if hipcache tells none"
        )

    def test_in_the_path(self, tmp_path: Path, without_hipcache: Callable[[], Project]) -> None:
        program = fake_hipcache(tmp_path / "elsewhere" / "hipcache")
        project = without_hipcache()
        project.environ["PATH"] = f"{program.parent}:/usr/bin:/bin"
        project.configure(*self.options(tmp_path))
        assert project.launchers() == {"kernels": str(program)}

    def test_named_by_the_user(self, tmp_path: Path, without_hipcache: Callable[[], Project]) -> None:
        fake_hipcache(tmp_path / "prefix" / "bin" / "hipcache")
        program = fake_hipcache(tmp_path / "my-hipcache")
        project = without_hipcache()
        project.configure(*self.options(tmp_path), f"-DHIPCACHE_PROGRAM={program}")
        assert project.launchers() == {"kernels": str(program)}

    def test_missing(self, tmp_path: Path, without_hipcache: Callable[[], Project]) -> None:
        project = without_hipcache()
        answer = project.configure(*self.options(tmp_path))
        assert "HipCache: the program 'hipcache' was not found: this build is not cached." in answer.text
        assert project.launchers() == {"kernels": ""}

    def test_named_wrongly(self, tmp_path: Path, without_hipcache: Callable[[], Project]) -> None:
        fake_hipcache(tmp_path / "prefix" / "bin" / "hipcache")
        project = without_hipcache()
        answer = project.configure(*self.options(tmp_path), "-DHIPCACHE_PROGRAM=/nowhere/hipcache")
        assert "HIPCACHE_PROGRAM is '/nowhere/hipcache', which is not a program" in answer.text
        assert project.launchers() == {"kernels": ""}

    def test_broken(self, tmp_path: Path, without_hipcache: Callable[[], Project]) -> None:
        """A launcher that does not start would fail every compile, so it is not used."""
        program = fake_hipcache(tmp_path / "prefix" / "bin" / "hipcache")
        program.write_text("#!/bin/sh\necho 'no module named hipcache' >&2\nexit 1\n")
        project = without_hipcache()
        answer = project.configure(*self.options(tmp_path))
        assert f"'{program} --version' failed (1): this build is not cached. no module named hipcache" in answer.text
        assert project.launchers() == {"kernels": ""}


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


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("HIPCACHE_MAX_SIZE", "much", "'HIPCACHE_MAX_SIZE': 'much' is not a size"),
        (
            "HIPCACHE_MAXSIZE",
            "1G",
            "unknown environment variable 'HIPCACHE_MAXSIZE'; did you mean 'HIPCACHE_MAX_SIZE'?",
        ),
        ("HIPCACHE_DIR", "/dev/null/store", "'/dev/null' is not a directory"),
    ],
)
def test_what_keeps_from_caching_is_said_at_configure(tmp_path: Path, variable: str, value: str, said: str) -> None:
    project = Project(tmp_path, environ={variable: value})
    project.write(simple_project())
    answer = project.configure(MODULE_PATH, ARCHES)
    assert said in answer.text
    assert answer.warnings == 1
