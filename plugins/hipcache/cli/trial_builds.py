"""For `hipcache doctor --try`: a small project built by each build tool of this machine, and the commands that did."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from hipcache.cli.directories import find
from hipcache.cli.toolchain import FAULT, NOTE, OK, PROBED, Check, Machine, resolve
from hipcache.report import logged
from hipcache.values import dataclass

_SOURCE = """\
#include <hip/hip_runtime.h>
__global__ void kernel(int* p) { p[0] = p[1]; }
void run(int* p) { kernel<<<1, 1>>>(p); }
"""
_LISTS = """\
cmake_minimum_required(VERSION 3.21)
project(kernels LANGUAGES HIP)
add_library(kernels STATIC kernel.hip)
"""
_SCONSTRUCT = """\
env = Environment(tools=["default", "hipcache"], toolpath=["{scons}"], HIP_ARCHS=["{arch}"])
env.StaticLibrary("kernels", ["kernel.hip"])
"""
_MESON = """\
project('kernels', 'cpp')
objects = subproject('hipcache').get_variable('hip_object').process('kernel.hip')
static_library('kernels', objects, link_language: 'cpp')
"""
_MAKEFILE = """\
kernel.o: kernel.hip
	$(CXX) --offload-arch={arch} -c -o $@ $<
"""
# Where nvcc is, too, HIP's scripts choose it.
_FOR_AMD = "HIP_PLATFORM=amd"
_TOP = "CMAKE_PROJECT_TOP_LEVEL_INCLUDES"


@dataclass(frozen=True)
class TrialBuild:
    """A build tool, the file of its project, and the shell line to try. `needs`: of such a file."""

    program: str
    file: str
    text: str
    line: str
    needs: str = ""


def builds(arch: str) -> tuple[TrialBuild, ...]:
    tool = _SCONSTRUCT.format(scons=find("scons"), arch=arch)
    module = shlex.quote(f"{find('cmake')}/HipCache.cmake")
    cmake = f"cmake -S . -B build -D{_TOP}={module} -DCMAKE_HIP_ARCHITECTURES={arch}"
    meson = f"ln -s {shlex.quote(str(find('meson')))} subprojects/hipcache"
    meson = f"mkdir -p subprojects && {meson} && meson setup build -Dhipcache:hip_architectures={arch}"
    return (
        TrialBuild("cmake", "CMakeLists.txt", _LISTS, f"{cmake} && cmake --build build"),
        TrialBuild("meson", "meson.build", _MESON, f"{meson} && meson compile -C build", _MESON.splitlines()[1]),
        TrialBuild("scons", "SConstruct", tool, "scons", tool.splitlines()[0]),
        TrialBuild("make", "Makefile", _MAKEFILE.format(arch=arch), 'make CXX="hipcache hipcc"'),
    )


def check(machine: Machine, arch: str = PROBED[1]) -> Iterator[Check]:
    """Each build tool that is installed, with its command."""
    for build in builds(arch):
        if not resolve(build.program, machine.environ):
            yield Check(NOTE, f"{build.program} is not installed", f"Debian: apt-get install {build.program}")
            continue
        said = ""
        for line in (build.line, f"export {_FOR_AMD}; {build.line}"):
            said = _try(build, line, machine)
            if not said:
                needs = f", if its {build.file} has: {build.needs}" if build.needs else ""
                yield Check(OK, f"{build.program} builds HIP through hipcache{needs}", line)
                break
        else:
            yield Check(FAULT, f"{build.program} builds no HIP through hipcache: {said}", f"tried: {build.line}")


def _try(build: TrialBuild, line: str, machine: Machine) -> str:
    """Its last word if it failed or cached nothing; empty if it did."""
    with TemporaryDirectory(prefix="hipcache-", ignore_cleanup_errors=True) as place:
        Path(place, "kernel.hip").write_text(_SOURCE)
        Path(place, build.file).write_text(build.text)
        log = Path(place, "log")
        environ: Mapping[str, str] = {
            **machine.environ,
            "HIPCACHE_DIR": f"{place}/store",
            "HIPCACHE_STATS_LOG": str(log),
        }
        done = machine.runner.run(["sh", "-c", line], env=environ, cwd=Path(place))
        if done.status:
            text = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
            return next((line for line in text.splitlines() if "error" in line.lower()), text.rpartition("\n")[2])
        return "" if log.exists() and logged.total(log).cacheable else "no compile came to hipcache"
