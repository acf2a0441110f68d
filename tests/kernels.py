"""Sources without HIP's own headers, and how they are compiled."""

from __future__ import annotations

ARCHS = ("--offload-arch=gfx906", "--offload-arch=gfx90a")
# Without HIP's headers and device libraries a compile takes a fifth of a second.
BARE = ("-nogpuinc", "-nogpulib")
# The driver's own CUID hashes the command line; the same one for both makes objects comparable.
CUID = "-cuid=5eed"


# What HIP's headers declare for a kernel and its launch, in our words.
HIP_IN_SHORT = """\
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __constant__ __attribute__((constant))
#define __shared__ __attribute__((shared))
struct dim3 {
    unsigned x, y, z;
    __host__ __device__ dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
extern "C" int hipLaunchKernel(const void*, dim3, dim3, void**, unsigned long, void*);
extern "C" unsigned __hipPushCallConfiguration(dim3, dim3, unsigned long = 0, void* = nullptr);
extern "C" unsigned __hipPopCallConfiguration(dim3*, dim3*, unsigned long*, void*);
"""

# The number of a macro's arguments, one or two: it does not show the arguments.
COUNTS = "#define NTH(a, b, n, ...) n\n#define NTH_(...) NTH(__VA_ARGS__)\n#define COUNT(...) NTH_(__VA_ARGS__, 2, 1)"

KERNEL = """\
#include "hip_in_short.hpp"
extern "C" __global__ void kernel(int* p) { p[0] = p[1] * 3; }
"""


def kernel(value: str, before: str = "") -> str:
    """A source whose kernel and host function hold `value`. `before`: lines of its own."""
    return f"""\
#include "hip_in_short.hpp"
{before}
extern "C" __global__ void kernel(int* p) {{ p[0] = p[1] * 7 + ({value}); }}
extern "C" int host() {{ return ({value}) + 5; }}
"""
