"""The source of a campaign, and what it is compiled with."""

from __future__ import annotations

HEADER = """\
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
struct dim3 {
    unsigned x, y, z;
    __host__ __device__ dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
extern "C" int hipLaunchKernel(const void*, dim3, dim3, void**, unsigned long, void*);
extern "C" unsigned __hipPushCallConfiguration(dim3, dim3, unsigned long = 0, void* = nullptr);
extern "C" unsigned __hipPopCallConfiguration(dim3*, dim3*, unsigned long*, void*);
"""
SOURCE = """\
#include "hip_in_short.hpp"
#include "value.hpp"
extern "C" __global__ void kernel(int* p) {{ p[0] = p[1] * VALUE + {number}; }}
extern "C" int host() {{ return VALUE + {number}; }}
"""
# Without HIP's headers and device libraries a compile takes a fifth of a second; the CUID is plain clang's, too.
FLAGS = ("-x", "hip", "--offload-arch=gfx906", "-nogpuinc", "-nogpulib", "-O1", "-cuid=5eed")
