"""Sources of a program with relocatable device code, and how each driver is asked for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from at_once import LIBRARIES, Both, both, words
from hip import FULL, HIT, Lab
from programs import RUNTIME
from toolchains import NEW, OLD, OLD_19

__all__ = ["NEW", "OLD", "OLD_19"]

ONE = """\
#include "hip_in_short.hpp"
#warning first
#ifdef __gfx90a__
#include "only.hpp"
#else
#define FACTOR 2
#endif
static __device__ int counter = 3;
void* address() { return (void*)&counter; }
__device__ int twice(int a) { return a * FACTOR + counter; }
extern "C" __global__ void kernel(int* p) { p[0] = twice(p[1]); }
int host();
#ifndef __HIP_DEVICE_COMPILE__
#include "host.hpp"
#endif
int main() { return host(); }
"""
TWO = """\
#include "hip_in_short.hpp"
#warning second
static __device__ int counter = 4;
void* other_address() { return (void*)&counter; }
__device__ int twice(int a);
extern "C" __global__ void other(int* p) { p[0] = twice(p[2]) + counter; }
"""


@dataclass(frozen=True)
class Sources:
    """Two sources, of which the first is a program by itself, and a runtime to link. `flags`: what chooses the
    driver."""

    lab: Lab
    flags: tuple[str, ...]

    def both(self, *more: str, libraries: tuple[str, ...] = LIBRARIES) -> Both:
        return both(self.lab, "-fgpu-rdc", *self.flags, *more, libraries=libraries)

    def compile(self, name: str, *more: str) -> None:
        """A source to an object, by clang."""
        line = words(self.lab, "-fgpu-rdc", *self.flags, *more, "-c", name, "-o", f"{Path(name).stem}.o", libraries=())
        assert self.lab.run(line).status == 0

    def warm(self, *more: str) -> Both:
        assert self.both(*more).counted.missed
        found = self.both(*more)
        assert (found.counted.outcome, found.counted.missed) == (HIT, frozenset())
        return found


@pytest.fixture(params=[OLD, NEW, OLD_19], ids=lambda driver: "".join([*driver[1], driver[0]]))
def sources(request: pytest.FixtureRequest, tmp_path: Path) -> Sources:
    version, flags = request.param
    lab = Lab.make(tmp_path, version)
    for name, text in (("one.hip", ONE), ("two.hip", TWO), ("runtime.cpp", RUNTIME)):
        lab.write(name, text)
    lab.write("only.hpp", "#define FACTOR 3\n")
    lab.write("host.hpp", "int host() { return 0; }\n")
    assert lab.run([lab.compiler, "-c", "runtime.cpp"]).status == 0
    assert lab.run(["ar", "rc", "libruntime.a", "runtime.o"]).status == 0
    return Sources(lab, flags)


each_driver = pytest.mark.parametrize(
    "sources",
    [OLD, NEW, *([OLD_19] if FULL else [])],
    indirect=True,
    ids=lambda driver: "".join([*driver[1], driver[0]]),
)
