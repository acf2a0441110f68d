#pragma once

#include <hip/hip_runtime.h>

#include <cstdint>

// One point of the set, the same code for host and device.
__host__ __device__ inline std::uint32_t escape(double re, double im, int most)
{
    double x = 0, y = 0;
    std::uint32_t count = 0;
    for (; x * x + y * y <= 4 && count < static_cast<std::uint32_t>(most); ++count) {
        const double next = x * x - y * y + re;
        y = 2 * x * y + im;
        x = next;
    }
    return count;
}
