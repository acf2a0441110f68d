"""A small HIP project of our own under real CMake, for tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hip import FULL, know_tools, write_files
from hip import statistics as statistics_of
from hip_toolchain import hips_own

CHECKOUT = Path(__file__).resolve().parent.parent
PROGRAMS = Path(sys.executable).parent
MODULES = CHECKOUT / "cmake"
TOOLCHAIN = CHECKOUT / "cmake" / "HipToolchain.cmake"
HIPCACHE = PROGRAMS / "hipcache"
COMPILER = f"/usr/bin/{hips_own().name}"

CMAKES = {"debian": Path("/usr/bin/cmake"), "newest": PROGRAMS / "cmake"}

# HIP with kernels and without HIP's headers: what they declare for a launch, in our words. Compiles in no time.
HIP_IN_SHORT = """\
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
extern "C" int hipLaunchKernel(const void*, dim3, dim3, void**, unsigned long, void*);
extern "C" unsigned __hipPushCallConfiguration(dim3, dim3, unsigned long = 0, void* = nullptr);
extern "C" unsigned __hipPopCallConfiguration(dim3*, dim3*, unsigned long*, void*);
"""


def hip_source(name: str) -> str:
    return f"""\
#include "hip_in_short.hpp"
__global__ void {name}_kernel(int* p) {{ p[0] = p[1] * {len(name)}; }}
int {name}(int* p)
{{
    {name}_kernel<<<1, 1>>>(p);
    return 1; // host
}}
"""


@dataclass
class Answer:
    """What a configure step printed, in one line: CMake wraps its warnings."""

    status: int
    text: str

    @property
    def warnings(self) -> int:
        return self.text.count("CMake Warning")


@dataclass
class Project:
    """A CMake project of ours with real commands around it."""

    root: Path
    cmake: str = "newest"
    generator: str = "Ninja"
    environ: dict[str, str] = field(default_factory=dict)
    configured: bool = False

    @property
    def build_dir(self) -> Path:
        return self.root / "build"

    def write(self, files: Mapping[str, str]) -> Project:
        write_files(self.root, files)
        return self

    def clean_environ(self) -> dict[str, str]:
        """No setting of the machine reaches a test, and no test another's store."""
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("HIPCACHE", "CMAKE_", "MAKE", "MFLAGS"))}
        environ["PATH"] = f"{PROGRAMS}:{environ.get('PATH', os.defpath)}"
        settings = {"HIPCACHE_DIR": str(self.root / "store"), "HIPCACHE_RESIDENT": "0", "HIP_PLATFORM": "amd"}
        return environ | settings | self.environ

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        environ = self.clean_environ()
        know_tools(environ)
        return subprocess.run(
            [str(word) for word in command],
            env=environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )

    def try_configure(self, *options: str) -> Answer:
        first = ["-G", self.generator, "--toolchain", str(TOOLCHAIN)] if not self.configured else []
        done = self.run(CMAKES[self.cmake], "-S", self.root, "-B", self.build_dir, *first, *options)
        self.configured = True
        return Answer(done.returncode, " ".join(done.stdout.split()))

    def configure(self, *options: str) -> Answer:
        answer = self.try_configure(*options)
        assert answer.status == 0, answer.text
        return answer

    def launchers(self) -> dict[str, str]:
        """For each target what stands before the compiler in the command of its HIP sources."""
        if self.generator == "Ninja":
            done = self.run(PROGRAMS / "ninja", "-C", self.build_dir, "-t", "commands")
        else:
            done = self.run("make", "-C", self.build_dir, "-n", "-B", "VERBOSE=1")
        assert done.returncode == 0, done.stdout
        found = {}
        for line in done.stdout.splitlines():
            if " -c " in line and COMPILER in line and (target := re.search(r" -o \S*CMakeFiles/(\S+?)\.dir/", line)):
                found[target[1]] = line.partition(COMPILER)[0].rpartition("&&")[2].strip().strip('"')
        return found

    def build(self) -> None:
        done = self.run(CMAKES[self.cmake], "--build", self.build_dir)
        assert done.returncode == 0, done.stdout

    def clean(self) -> None:
        assert self.run(CMAKES[self.cmake], "--build", self.build_dir, "--target", "clean").returncode == 0


def simple_project(way_in: str = "include(HipCache)", after: str = "", before: str = "") -> dict[str, str]:
    return {
        "CMakeLists.txt": f"""\
cmake_minimum_required(VERSION 3.21)
project(simple LANGUAGES HIP)
{before}
{way_in}
add_library(kernels STATIC one.hip)
{after}
""",
        "hip_in_short.hpp": HIP_IN_SHORT,
        "one.hip": hip_source("one"),
    }


MODULE_PATH = f"-DCMAKE_MODULE_PATH={MODULES}"
ARCHES = "-DCMAKE_HIP_ARCHITECTURES=gfx906;gfx90a"
full = pytest.mark.skipif(not FULL, reason="one more combination: make test-full")
WAYS_IN = {
    "include": ("include(HipCache)", MODULE_PATH),
    "find_package": ("find_package(HipCache 1.0 REQUIRED)", f"-DHipCache_DIR={MODULES}"),
    "top_level_includes": ("", f"-DCMAKE_PROJECT_TOP_LEVEL_INCLUDES={MODULES / 'HipCache.cmake'}"),
    "project_include": ("", f"-DCMAKE_PROJECT_INCLUDE={MODULES / 'HipCache.cmake'}"),
}


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


CXX = f"-DCMAKE_CXX_COMPILER={COMPILER}"
