"""The ways in which projects compile HIP, each with real tools, cold and warm: C++ as HIP in CMake, FindHIP, make."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cmake_project import CHECKOUT, CMAKES, COMPILER, HIPCACHE, MODULE_PATH, MODULES, PROGRAMS, Project, hip_source
from hip import HIP_IN_SHORT, LAUNCHER, script
from hip import statistics as statistics_of
from hipcache.launcher import plain
from hipcache.planning import assembler
from hipcache.report import sums
from hipcache.report.outcome import PASSED_THROUGH, CompileOutcome
from hipcache.report.targets import is_check as is_a_check

EXAMPLE = CHECKOUT / "examples" / "make"
DEBIAN_FLAGS = "--rocm-path=/usr --rocm-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode"


@dataclass
class Counted:
    """What hipcache counted since the last look."""

    project: Project
    _seen: dict[str, int] = field(default_factory=dict)

    def compiles(self) -> dict[str, int]:
        stats: Any = statistics_of(self.project.clean_environ())
        now = {**stats["compiles"], **{f"{name} compiled": unit["misses"] for name, unit in stats["units"].items()}}
        grown = {name: count - self._seen.get(name, 0) for name, count in now.items()}
        self._seen = now
        return {name: count for name, count in grown.items() if count and name != "passed_through"}


# C++ as HIP in CMake

HEAD = """\
cmake_minimum_required(VERSION 3.21)
project(ways LANGUAGES CXX)
include(HipCache)
add_library(device INTERFACE)
add_library(gpu::device ALIAS device)
target_compile_options(device INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-x hip -nogpuinc -nogpulib --offload-arch=gfx906 --offload-arch=gfx90a>")
"""


def targets(project: Project) -> dict[str, str]:
    """For each target what stands before the compiler of its C++."""
    return project.launchers()


def cxx_project(root: Path, lines: str, environ: Mapping[str, str] | None = None, cmake: str = "newest") -> Project:
    project = Project(root, cmake, environ=dict(environ or {}))
    return project.write(
        {
            "CMakeLists.txt": HEAD + lines,
            "hip_in_short.hpp": HIP_IN_SHORT,
            "one.cpp": hip_source("one"),
            "two.cpp": hip_source("two"),
            "plain.cpp": "int plain() { return 1; }\n",
        }
    )


CXX = f"-DCMAKE_CXX_COMPILER={COMPILER}"


@pytest.mark.parametrize("cmake", CMAKES)
def test_cmake_targets_whose_cxx_is_hip_are_covered_and_others_are_not(tmp_path: Path, cmake: str) -> None:
    lines = """\
add_library(direct STATIC one.cpp)
target_link_libraries(direct PRIVATE gpu::device)
add_library(middle INTERFACE)
target_link_libraries(middle INTERFACE $<BUILD_INTERFACE:gpu::device> middle2)
add_library(middle2 INTERFACE)
target_link_libraries(middle2 INTERFACE middle)
add_library(indirect STATIC one.cpp)
target_link_libraries(indirect PRIVATE "$<$<BOOL:1>:middle>")
add_library(by_options STATIC one.cpp)
target_compile_options(by_options PRIVATE -xhip --offload-arch=gfx906 -nogpuinc -nogpulib)
add_library(plain STATIC plain.cpp)
add_library(uses STATIC plain.cpp)
target_link_libraries(uses PRIVATE direct) # a static library: $<LINK_ONLY:gpu::device> hands no options on
"""
    project = cxx_project(tmp_path, lines, cmake=cmake)
    answer = project.configure(MODULE_PATH, CXX)
    ours = str(HIPCACHE)
    assert targets(project) == {
        "direct": ours,
        "indirect": ours,
        "by_options": ours,
        "plain": "",
        "uses": "",
    }
    assert answer.warnings == 0
    assert "HipCache: clang++ 15.0.6, C++ as HIP" in answer.text


def test_cmake_flags_for_all_of_cxx_cover_all_targets(tmp_path: Path) -> None:
    lines = 'string(APPEND CMAKE_CXX_FLAGS " -x hip --offload-arch=gfx906")\nadd_library(one STATIC one.cpp)\n'
    project = cxx_project(tmp_path, lines)
    project.configure(MODULE_PATH, CXX)
    assert targets(project) == {"one": str(HIPCACHE)}


def test_cmake_ccache_stays_behind_hipcache_and_other_launchers_stay_alone(tmp_path: Path) -> None:
    ccache = script(tmp_path / "ccache", 'exec "$@"\n')
    lines = """\
add_library(plain STATIC plain.cpp)
add_library(one STATIC one.cpp)
target_link_libraries(one PRIVATE device)
add_library(two STATIC two.cpp)
target_link_libraries(two PRIVATE device)
set_target_properties(two PROPERTIES CXX_COMPILER_LAUNCHER "env;A=1")
add_library(refused STATIC two.cpp)
target_link_libraries(refused PRIVATE device)
set_target_properties(refused PROPERTIES CXX_COMPILER_LAUNCHER "")
"""
    project = cxx_project(tmp_path, lines)
    answer = project.configure(MODULE_PATH, CXX, f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}")
    assert targets(project) == {
        "plain": str(ccache),
        "one": f"{HIPCACHE} {ccache}",
        "two": "env A=1",
        "refused": "",
    }
    assert "not cached, CXX_COMPILER_LAUNCHER is already 'env A=1': two" in answer.text
    project.configure(MODULE_PATH, CXX)
    assert targets(project)["one"] == f"{HIPCACHE} {ccache}", "a second configure adds nothing"


def test_cmake_off_covers_no_cxx(tmp_path: Path) -> None:
    project = cxx_project(tmp_path, "add_library(one STATIC one.cpp)\ntarget_link_libraries(one PRIVATE device)\n")
    project.configure(MODULE_PATH, CXX, "-DHIPCACHE=OFF")
    assert targets(project) == {"one": ""}


def test_cmake_hip_as_cxx_builds_cold_and_warm(tmp_path: Path) -> None:
    lines = "add_library(both SHARED one.cpp two.cpp)\ntarget_link_libraries(both PRIVATE gpu::device)\n"
    project = cxx_project(tmp_path, lines)
    project.configure(MODULE_PATH, CXX)
    counted = Counted(project)
    project.build()
    compiled = {"gfx906 compiled": 2, "gfx90a compiled": 2, "host compiled": 2}
    assert counted.compiles() == {"miss": 2, **compiled}
    project.clean()
    project.build()
    assert counted.compiles() == {"hit": 2}


@pytest.mark.parametrize("variable", ["GPU_TARGETS", "AMDGPU_TARGETS"])
def test_cmake_hip_device_of_debian_builds_cold_and_warm(tmp_path: Path, variable: str) -> None:
    """`find_package(hip)` in a subdirectory: its targets are not seen from the top."""
    project = cxx_project(tmp_path, "add_subdirectory(sub)\n")
    project.write(
        {
            "sub/CMakeLists.txt": """\
find_package(hip REQUIRED CONFIG PATHS /usr)
add_library(k STATIC k.cpp)
target_link_libraries(k PRIVATE hip::device)
add_library(h STATIC h.cpp)
target_link_libraries(h PRIVATE hip::host)
""",
            "sub/k.cpp": "#include <hip/hip_runtime.h>\n__global__ void k(int* p) { p[0] = __popc(p[1]); }\n",
            "sub/h.cpp": "int h() { return 1; }\n",
        }
    )
    flags = [f"-DCMAKE_CXX_FLAGS={DEBIAN_FLAGS}", f"-D{variable}=gfx906;gfx90a"]
    project.configure(MODULE_PATH, CXX, *flags, "-DCMAKE_POLICY_VERSION_MINIMUM=3.5")
    assert targets(project) == {"k": str(HIPCACHE), "h": ""}
    counted = Counted(project)
    project.build()
    assert counted.compiles() == {"miss": 1, "gfx906 compiled": 1, "gfx90a compiled": 1, "host compiled": 1}
    project.clean()
    project.build()
    assert counted.compiles() == {"hit": 1}


@pytest.mark.parametrize(("cmake", "generator"), [("newest", "Ninja"), ("debian", "Unix Makefiles")])
def test_cmake_with_hipcc_as_the_cxx_compiler_builds_cold_and_warm(tmp_path: Path, cmake: str, generator: str) -> None:
    """Without the cache it makes the same objects."""
    project = cxx_project(tmp_path, "add_library(both STATIC one.cpp two.cpp)\n", cmake=cmake)
    project.generator = generator
    flags = "-DCMAKE_CXX_FLAGS=--offload-arch=gfx906 -nogpuinc -nogpulib -cuid=5eed"
    answer = project.configure(MODULE_PATH, "-DCMAKE_CXX_COMPILER=/usr/bin/hipcc", flags)
    assert "HipCache: hipcc" in answer.text
    counted = Counted(project)
    objects = []
    for expected in ({"miss": 2, "gfx906 compiled": 2, "host compiled": 2}, {"hit": 2}, {}):
        project.build()
        assert counted.compiles() == expected
        objects.append({path.name: path.read_bytes() for path in project.build_dir.rglob("*.cpp.o")})
        project.clean()
        if expected == {"hit": 2}:
            project.configure("-DHIPCACHE=OFF")
    assert objects[0].keys() == {"one.cpp.o", "two.cpp.o"}
    assert objects[0] == objects[1] == objects[2]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--offload-arch=gfx1100", "cannot find ROCm device library for gfx1100"),
        ("--offload-arch=gfx906 --no-such-option", "no-such-option"),
    ],
)
def test_cmake_hip_as_cxx_says_what_the_compiler_cannot_do_once(tmp_path: Path, flags: str, said: str) -> None:
    lines = f"add_library(one STATIC one.cpp)\ntarget_compile_options(one PRIVATE -xhip {flags} {DEBIAN_FLAGS})\n"
    project = cxx_project(tmp_path, lines)
    project.configure(MODULE_PATH, CXX)
    assert targets(project) == {"one": str(HIPCACHE)}
    done = project.run(CMAKES["newest"], "--build", project.build_dir)
    assert done.returncode != 0
    assert [said in line for line in done.stdout.splitlines() if "error: " in line] == [True]


# FindHIP


@pytest.mark.parametrize("cmake", CMAKES)
def test_findhip_with_a_script_for_hipcc_builds_cold_and_warm(tmp_path: Path, cmake: str) -> None:
    """A library and a program, which hipcc links, by the commands that the documentation has."""
    project = Project(tmp_path, cmake, "Unix Makefiles", environ={"HCC_AMDGPU_TARGET": "gfx906"})
    project.write(
        {
            "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.21)
project(find_hip LANGUAGES CXX)
list(APPEND CMAKE_MODULE_PATH /usr/lib/x86_64-linux-gnu/cmake/hip)
find_package(HIP REQUIRED MODULE)
set_source_files_properties(one.cpp main.cpp PROPERTIES HIP_SOURCE_PROPERTY_FORMAT 1)
hip_add_library(one SHARED one.cpp HIPCC_OPTIONS --offload-arch=gfx906 -nogpuinc -nogpulib)
hip_add_executable(program main.cpp HIPCC_OPTIONS --offload-arch=gfx906 -nogpuinc -nogpulib)
target_link_libraries(program one)
""",
            "hip_in_short.hpp": HIP_IN_SHORT,
            "one.cpp": hip_source("one"),
            "main.cpp": hip_source("two")
            + "int one(int*);\nint main(int, char** argv) { return argv ? 0 : one(nullptr); }\n",
        }
    )
    hipcc = script(tmp_path / "hipcc", f'exec {HIPCACHE} /usr/bin/hipcc "$@"\n')
    places = ["-DHIP_ROOT_DIR=/usr", "-DHIP_CLANG_PATH=/usr/bin", f"-DHIP_HIPCC_EXECUTABLE={hipcc}"]
    project.configure(CXX, "-DCMAKE_HIP_ARCHITECTURES=OFF", *places)
    counted = Counted(project)
    for expected in ({"miss": 2, "gfx906 compiled": 2, "host compiled": 2}, {"hit": 2}):
        project.build()
        assert counted.compiles() == expected
        done = project.run("env", f"LD_LIBRARY_PATH={project.build_dir}", project.build_dir / "program")
        assert done.returncode == 0, done.stdout
        project.clean()


# make


def test_the_example_for_make_builds_cold_warm_with_one_architecture_more_and_after_an_edit(tmp_path: Path) -> None:
    project = Project(tmp_path)
    shutil.copytree(EXAMPLE, tmp_path / "make", ignore=shutil.ignore_patterns("build"))

    def make(archs: str, how: str = "-B") -> None:
        done = project.run("make", how, "-C", tmp_path / "make", f"CXX={HIPCACHE} hipcc", f"ARCHS={archs}")
        assert done.returncode == 0, done.stdout

    counted = Counted(project)
    make("gfx906")
    assert counted.compiles() == {"miss": 3, "gfx906 compiled": 3, "host compiled": 3}
    make("gfx906")
    assert counted.compiles() == {"hit": 3}
    make("gfx906 gfx1030")
    assert counted.compiles() == {"partial": 3, "gfx1030 compiled": 3}
    assert "no device" in project.run(tmp_path / "make" / "build" / "mandelbrot").stdout

    header = tmp_path / "make" / "src" / "escape.hpp"
    header.write_text(header.read_text().replace("<= 4", "<= 5"))
    make("gfx906", "-s")
    assert counted.compiles() == {"miss": 1, "partial": 1, "gfx906 compiled": 1, "host compiled": 2}


@pytest.mark.parametrize("variable", ["CC", "CXX"])
def test_make_with_its_own_rules_and_hipcc_builds_cold_and_warm(tmp_path: Path, variable: str) -> None:
    """`make CC="hipcache hipcc"`: no makefile but two lines. HIP by its suffix, C++ by make's own rule."""
    project = Project(tmp_path).write(
        {
            "Makefile": "%.o: %.hip\n\t$(CC) $(CXXFLAGS) -c -o $@ $<\n",
            "hip_in_short.hpp": HIP_IN_SHORT,
            "one.hip": hip_source("one"),
            "two.cpp": hip_source("two"),
        }
    )
    source = "one.o" if variable == "CC" else "two.o"
    flags = "CXXFLAGS=--offload-arch=gfx906 -nogpuinc -nogpulib"
    counted = Counted(project)
    for expected in ({"miss": 1, "gfx906 compiled": 1, "host compiled": 1}, {"hit": 1}):
        done = project.run("make", "-B", "-C", tmp_path, f"{variable}={HIPCACHE} hipcc", flags, source)
        assert done.returncode == 0, done.stdout
        assert counted.compiles() == expected


def test_make_with_a_program_by_one_command_builds_cold_warm_and_after_an_edit(tmp_path: Path) -> None:
    """As the Makefiles of small programs have it."""
    project = Project(tmp_path).write(
        {
            "Makefile": "program: main.cpp other.cpp\n\t$(CXX) $(CXXFLAGS) $^ -o $@\n",
            "hip_in_short.hpp": HIP_IN_SHORT,
            "main.cpp": hip_source("one") + "int main() { return 0; }\n",
            "other.cpp": hip_source("two"),
        }
    )
    flags = "CXXFLAGS=--offload-arch=gfx906 -nogpuinc -nogpulib"
    counted = Counted(project)
    cold = {"miss": 1, "gfx906 compiled": 2, "host compiled": 2}
    for expected in (cold, {"hit": 1}, {"partial": 1, "gfx906 compiled": 1, "host compiled": 1}):
        if "partial" in expected:
            project.write({"other.cpp": hip_source("three")})
        done = project.run("make", "-B", "-C", tmp_path, f"CXX={HIPCACHE} hipcc", flags)
        assert done.returncode == 0, done.stdout
        assert counted.compiles() == expected


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("ARCHS=gfx1100", "cannot find ROCm device library for gfx1100"),
        ("CXXFLAGS=--no-such-option", "error: unsupported option '--no-such-option'"),
        (f"CXX={HIPCACHE} hipcc-99", "hipcache: 'hipcc-99' is neither a subcommand nor a compiler on PATH"),
    ],
    ids=["an architecture that the device libraries do not cover", "an unknown option", "a missing compiler"],
)
def test_make_is_told_what_is_wrong_once(tmp_path: Path, setting: str, said: str) -> None:
    project = Project(tmp_path)
    shutil.copytree(EXAMPLE, tmp_path / "make", ignore=shutil.ignore_patterns("build"))
    command = ["make", "-C", tmp_path / "make", f"CXX={HIPCACHE} hipcc", "ARCHS=gfx906", setting, "build/main.o"]
    done = project.run(*command)
    assert done.returncode == 2
    assert done.stdout.count(said) == 1, done.stdout


def test_cmakes_directory_has_what_the_documentation_names() -> None:
    assert (MODULES / "HipCache.cmake").is_file()
    assert (PROGRAMS / "hipcache").is_file()


# Plain C++


def count_of(project: Project) -> dict[str, int]:
    stats: Any = statistics_of(project.clean_environ())
    return {**stats["compiles"], **stats["passed_through"]}


def test_plain_cxx_is_counted_whichever_way_it_passes(tmp_path: Path) -> None:
    project = Project(tmp_path).write({"x.cpp": "int x() { return 1; }\n"})
    assert sums.texts(CompileOutcome(PASSED_THROUGH, reason="not_hip")) == [plain.TEXT.decode()]
    for _ in range(3):  # the first one makes the log
        done = project.run(HIPCACHE, COMPILER, "-c", tmp_path / "x.cpp", "-o", tmp_path / "x.o")
        assert (done.returncode, done.stdout) == (0, "")
    assert count_of(project)["not_hip"] == 3
    assert (tmp_path / "x.o").read_bytes()


CHECKS = [
    ("CMakeFiles/CMakeScratch/TryCompile-x", "CMakeFiles/cmTC_1.dir/x.cpp.o", True),
    ("CMakeFiles/CMakeTmp", "x.o", True),
    ("meson-private/tmpa_b", "output.obj", True),
    ("", "meson-private/tmpa_b/output.obj", True),
    ("", "meson-private/tmp.o", False),
    ("", "meson-private/sanitycheck.o", False),
    ("", ".sconf_temp/conftest.o", True),
    ("CMakeFiles/a.dir", "x.o", False),
]


@pytest.mark.parametrize("engine", [False, True])
def test_checks_of_plain_cxx_are_apart_whichever_way_they_pass(tmp_path: Path, engine: bool) -> None:
    project = Project(tmp_path).write({"x.cpp": "int x() { return 1; }\n"})
    program = [sys.executable, "-m", "hipcache"] if engine else [HIPCACHE]
    checks, others = 0, 0
    for directory, output, check in CHECKS:
        place = tmp_path / "build" / directory
        (place / output).parent.mkdir(parents=True, exist_ok=True)
        assert is_a_check(str(place / output)) == check
        for path in (place / output, Path(output)):
            done = project.run("env", "-C", place, *program, COMPILER, "-c", tmp_path / "x.cpp", "-o", path)
            assert (done.returncode, done.stdout) == (0, "")
            checks, others = checks + check, others + (not check)
    stats: Any = statistics_of(project.clean_environ())
    assert stats["checks"] == {"passed_through": checks}
    assert stats["passed_through"] == {"not_hip": others}
    assert sums.texts(CompileOutcome(PASSED_THROUGH, reason="not_hip", check=True)) == [plain.TEXT_OF_CHECK.decode()]


def test_cmakes_own_checks_of_cxx_are_no_compiles(tmp_path: Path) -> None:
    """The launcher of C++ reaches them, as recipes set it for all compilers."""
    files = {
        "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.21)
project(one LANGUAGES CXX)
include(CheckCXXSourceCompiles)
check_cxx_source_compiles("int main() { return 0; }" WORKS)
check_cxx_source_compiles("int main() { return nothing; }" FAILS)
add_library(one STATIC x.cpp)
""",
        "x.cpp": "int x() { return 1; }\n",
    }
    project = Project(tmp_path, environ={"CMAKE_CXX_COMPILER_LAUNCHER": str(HIPCACHE)}).write(files)
    project.configure(f"-DCMAKE_CXX_COMPILER={COMPILER}")
    project.build()
    stats: Any = statistics_of(project.clean_environ())
    assert stats["passed_through"] == {"not_hip": 1}
    assert stats["checks"]["passed_through"] >= 3


def test_plain_cxx_passes_without_the_engine(tmp_path: Path) -> None:
    """What takes long to start is not even imported."""
    project = Project(tmp_path).write({"x.cpp": "int x() { return 1; }\n"})
    command = [sys.executable, "-X", "importtime", "-m", "hipcache", COMPILER, "-c", tmp_path / "x.cpp"]
    project.run(*command, "-o", tmp_path / "x.o")
    said = project.run(*command, "-o", tmp_path / "x.o").stdout
    assert "hipcache.launcher.plain" in said
    for module in ("hipcache.launcher.launch", "dataclasses", "pathlib", "json", "subprocess"):
        assert f" {module}\n" not in said


def write_assembler_sources(place: Path) -> None:
    for name in ("large", "large.s"):
        (place / name).write_bytes(bytes(assembler.WORTH))
    (place / "small.s").write_bytes(bytes(assembler.WORTH - 1))


PLAIN = [
    (["clang++", "-c", "x.cpp"], True),
    (["/usr/bin/clang++-15", "-I/opt/rocm/include/hip", "-c", "hip.cpp"], True),
    (["clang++", "-c", "-x", "hip", "x.cpp"], False),
    (["clang++", "-c", "-xhip", "x.cpp"], False),
    (["clang++", "-c", "--language=hip", "x.cpp"], False),
    (["clang++", "-c", "x.hip"], False),
    (["clang++", "-c", "@words"], False),
    (["clang++", "x.cpp"], False),
    (["hipcc", "-c", "x.cpp"], False),
    (["hipcc.bin", "-c", "x.cpp"], False),
    (["clang++", "-c", "x.cpp", "-o", "hip.o"], True),
    (["clang++", "-o", "-c", "x.cpp"], True),
    (["clang", "-c", "x.s"], True),
    (["clang", "-x", "assembler", "-target", "x86_64-linux-gnu", "-c", "x.s"], True),
    (["clang", "-target", "amdgcn-amd-amdhsa", "-c", "x.c"], True),
    (["clang++", "-target", "amdgcn--amdhsa", "-c", "small.s"], True),
    (["clang", "-x", "assembler", "-target", "amdgcn-amd-amdhsa", "-c", "large"], False),
    (["clang", "-xassembler", "--target=amdgcn-amd-amdhsa", "-c", "large"], False),
    (["clang", "--language=assembler", "--target=amdgcn-amd-amdhsa", "-c", "large"], False),
    (["clang++", "--target=amdgcn-amd-amdhsa", "-c", "large.s"], False),
    (["clang++", "-target", "amdgcn--amdhsa", "-c", "large.s"], False),
]
BEHIND_ANOTHER_CACHE = [
    (["ccache", "clang++", "-c", "x.cpp"], True),
    (["ccache", "hipcc", "-c", "x.cpp"], False),
]


@pytest.mark.parametrize(("words", "expected"), [*PLAIN, *BEHIND_ANOTHER_CACHE])
def test_only_what_is_certainly_no_hip_is_plain(
    words: list[str], expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_assembler_sources(tmp_path)
    assert plain.is_plain(words) == expected


@pytest.mark.parametrize(("words", "expected"), [*PLAIN, *((words, False) for words, _ in BEHIND_ANOTHER_CACHE)])
def test_the_native_launcher_means_the_same_by_plain(tmp_path: Path, words: list[str], expected: bool) -> None:
    """Behind another cache it leaves to the engine what the compiler is."""
    shutil.copy(LAUNCHER[0], tmp_path / "hipcache")
    script(tmp_path / "hipcache-engine", "exit 99\n")
    compiler = script(tmp_path / Path(words[0]).name, "exit 7\n")
    (tmp_path / "store/v1/statistics").mkdir(parents=True)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "HIPCACHE_DIR": str(tmp_path / "store")}
    write_assembler_sources(tmp_path)
    ended = subprocess.run([tmp_path / "hipcache", compiler, *words[1:]], env=environ, cwd=tmp_path, check=False)
    assert ended.returncode == (7 if expected else 99)


@pytest.mark.parametrize(("name", "value"), [("HIPCACHE_DISABLE", "1"), ("HIPCACHE_READONLY", "1")])
def test_settings_hold_for_plain_cxx_too(tmp_path: Path, name: str, value: str) -> None:
    project = Project(tmp_path).write({"x.cpp": "int x() { return 1; }\n"})
    project.run(HIPCACHE, COMPILER, "-c", tmp_path / "x.cpp", "-o", tmp_path / "x.o")
    project.environ[name] = value
    project.run(HIPCACHE, COMPILER, "-c", tmp_path / "x.cpp", "-o", tmp_path / "x.o")
    del project.environ[name]
    assert count_of(project)["not_hip"] == 1


def test_a_config_file_holds_for_plain_cxx_too(tmp_path: Path) -> None:
    project = Project(tmp_path, environ={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    project.write({"x.cpp": "int x() { return 1; }\n", "config/hipcache/hipcache.yaml": f"log: {tmp_path}/log\n"})
    for _ in range(2):
        project.run(HIPCACHE, COMPILER, "-c", tmp_path / "x.cpp", "-o", tmp_path / "x.o")
    assert (tmp_path / "log").read_text().count("passed_through not_hip") == 2
