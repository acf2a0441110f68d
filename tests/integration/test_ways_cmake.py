"""C++ as HIP in CMake, in each way that projects use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from cmake_project import CMAKES, CXX, HIPCACHE, MODULE_PATH, Counted, Project, hip_source
from hip import HIP_IN_SHORT, script

DEBIAN_FLAGS = "--rocm-path=/usr --rocm-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode"


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
