"""The ways in which projects compile HIP without CMake's language, with real tools, cold and warm: FindHIP, make."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cmake_project import CHECKOUT, CMAKES, CXX, HIPCACHE, MODULES, PROGRAMS, Counted, Project, hip_source
from hip import HIP_IN_SHORT, script

EXAMPLE = CHECKOUT / "examples" / "make"


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


# Whatever is here


@pytest.mark.parametrize("cmake", CMAKES)
def test_the_module_shows_cmake_where_a_distribution_has_hip(tmp_path: Path, cmake: str) -> None:
    """Without a toolchain file; CMake's own trial builds find it, too, and so does a build without the module later."""
    project = Project(tmp_path, cmake, configured=True)
    lists = """\
cmake_minimum_required(VERSION 3.21)
project(kernels LANGUAGES CXX HIP)
include(CheckSourceCompiles)
check_source_compiles(HIP "__attribute__((device)) int kept; int main() { return 0; }" HIP_WORKS)
add_library(kernels STATIC one.hip)
"""
    project.write({"CMakeLists.txt": lists, "hip_in_short.hpp": HIP_IN_SHORT, "one.hip": hip_source("one")})
    module = f"-DCMAKE_PROJECT_TOP_LEVEL_INCLUDES={MODULES / 'HipCache.cmake'}"
    told = project.configure("-G", "Ninja", module, "-DCMAKE_HIP_ARCHITECTURES=gfx906")
    assert "HIP_WORKS - Success" in told.text
    project.build()
    assert Counted(project).compiles()["miss"] == 1
    project.configure("-UCMAKE_PROJECT_TOP_LEVEL_INCLUDES")
    project.build()


def test_the_commands_that_doctor_prints_have_built_a_project_through_hipcache(tmp_path: Path) -> None:
    project = Project(tmp_path)
    done = project.run(HIPCACHE, "doctor", "--try")
    told = done.stdout.partition("\nBuild tools\n")[2]
    for tool in ("cmake", "meson", "scons", "make"):
        assert f"  ok     {tool} builds HIP through hipcache" in told, told
    assert " --toolchain " not in told, "the module finds Debian's HIP"


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
