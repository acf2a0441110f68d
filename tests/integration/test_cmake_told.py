"""What the CMake module says at configure: warnings, and what is wrong, with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from cmake_project import ARCHES, CMAKES, CXX, MODULE_PATH, WAYS_IN, Project, simple_project


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
            pytest.param("", [ARCHES, "-DCMAKE_UNITY_BUILD=ON"], id="unity, which merges no HIP"),
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


UNITY = "UNITY_BUILD is on for kernels, whose C++ is compiled as HIP"
GLOBAL_RULE = 'set_property(GLOBAL PROPERTY RULE_LAUNCH_COMPILE "ccache")'


class TestWarningsForCxx:
    """The same for C++ that is compiled as HIP."""

    @pytest.mark.parametrize(
        ("lines", "options", "expected"),
        [
            pytest.param("", ["-DCMAKE_UNITY_BUILD=ON"], [UNITY], id="unity"),
            pytest.param("set_target_properties(kernels PROPERTIES UNITY_BUILD ON)", [], [UNITY], id="unity of it"),
            pytest.param(
                "set_target_properties(plain PROPERTIES UNITY_BUILD ON)", [], [], id="unity of a target without HIP"
            ),
            pytest.param(
                "set_source_files_properties(two.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)",
                ["-DCMAKE_UNITY_BUILD=ON"],
                [],
                id="unity of a single source",
            ),
            pytest.param(
                GLOBAL_RULE, [], ["RULE_LAUNCH_COMPILE puts 'ccache' in front of hipcache"], id="rule launcher"
            ),
            pytest.param(
                "target_compile_options(kernels PRIVATE -save-temps=obj)",
                [],
                ["the C++ flags contain -save-temps=obj"],
                id="save-temps",
            ),
            pytest.param(
                f"{GLOBAL_RULE}\ntarget_compile_options(kernels PRIVATE --save-temps)",
                ["-DCMAKE_UNITY_BUILD=ON"],
                [UNITY, "the C++ flags contain --save-temps", "RULE_LAUNCH_COMPILE puts 'ccache'"],
                id="all at once",
            ),
        ],
    )
    def test_said(self, tmp_path: Path, lines: str, options: list[str], expected: list[str]) -> None:
        text = f"""\
cmake_minimum_required(VERSION 3.21)
project(simple LANGUAGES CXX)
include(HipCache)
add_library(kernels STATIC one.cpp two.cpp)
target_compile_options(kernels PRIVATE -x hip --offload-arch=gfx906)
add_library(plain STATIC one.cpp two.cpp)
{lines}
"""
        sources = {f"{name}.cpp": "" for name in ("one", "two")}
        answer = Project(tmp_path).write({"CMakeLists.txt": text, **sources}).configure(MODULE_PATH, CXX, *options)
        for one in expected:
            assert f"HipCache: {one}" in answer.text
        assert answer.warnings == len(expected), answer.text

    def test_an_empty_launcher_from_the_command_line_counts_as_none(self, tmp_path: Path) -> None:
        text = """\
cmake_minimum_required(VERSION 3.21)
project(simple LANGUAGES CXX)
include(HipCache)
add_library(kernels STATIC one.cpp)
target_compile_options(kernels PRIVATE -x hip --offload-arch=gfx906)
add_library(refused STATIC one.cpp)
target_compile_options(refused PRIVATE -x hip --offload-arch=gfx906)
"""
        project = Project(tmp_path).write({"CMakeLists.txt": text, "one.cpp": ""})
        answer = project.configure(MODULE_PATH, CXX, "-DCMAKE_CXX_COMPILER_LAUNCHER=")
        assert "C++ as HIP" in answer.text
        assert "not cached" not in answer.text
        text += 'set_property(TARGET refused PROPERTY CXX_COMPILER_LAUNCHER "")\n'
        answer = Project(tmp_path / "again").write({"CMakeLists.txt": text, "one.cpp": ""}).configure(MODULE_PATH, CXX)
        assert "HipCache: not cached, CXX_COMPILER_LAUNCHER is set to nothing: refused" in answer.text

    def test_a_target_of_hip_and_of_cxx_is_told_of_once(self, tmp_path: Path) -> None:
        text = f"""\
cmake_minimum_required(VERSION 3.21)
project(simple LANGUAGES CXX HIP)
include(HipCache)
add_library(kernels STATIC one.hip one.cpp)
target_compile_options(kernels PRIVATE $<$<COMPILE_LANGUAGE:CXX>:SHELL:-x hip --offload-arch=gfx906>)
{GLOBAL_RULE}
"""
        project = Project(tmp_path).write({"CMakeLists.txt": text, "one.cpp": "", "one.hip": ""})
        answer = project.configure(MODULE_PATH, ARCHES, CXX, "-DCMAKE_UNITY_BUILD=ON")
        assert "HipCache: RULE_LAUNCH_COMPILE puts 'ccache' in front" in answer.text
        assert answer.warnings == 1, answer.text


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


def test_the_source_directory_is_noted_and_told_where_checkouts_are_to_share(tmp_path: Path) -> None:
    line, option = WAYS_IN["include"]
    project = Project(tmp_path, next(iter(CMAKES)), "Ninja").write(simple_project(line))
    note = Path(project.build_dir) / ".hipcache-source"
    assert "does not name" not in project.configure(option, ARCHES).text
    assert not note.exists()
    told = project.configure("-DHIPCACHE_SHARE_CHECKOUTS=ON").text
    assert f"does not name {tmp_path} (__FILE__, -g); with -ffile-prefix-map={tmp_path}=." in told
    assert note.read_text() == f"{tmp_path}\n"
    project.configure("-DHIPCACHE_SHARE_CHECKOUTS=OFF")
    assert not note.exists()
