// Rotary positions of a transformer.
#include <hip/hip_runtime.h>
#include <cmath>
#include <vector>

#include "check.hpp"

__global__ void rope(float* x, int heads, int width, float base)
{
    const int position = blockIdx.x, head = blockIdx.y, i = threadIdx.x;
    float* at = x + (position * heads + head) * width + 2 * i;
    const float angle = position * powf(base, -2.0f * i / width);
    float s, c;
    sincosf(angle, &s, &c);
    const float a = at[0], b = at[1];
    at[0] = a * c - b * s;
    at[1] = a * s + b * c;
}

const char* run_rope(float* x, int positions, int heads, int width)
{
    rope<<<dim3(positions, heads), width / 2>>>(x, heads, width, 10000.0f);
    return failure(hipGetLastError());
}

const char* about_rope() { return "rope: as it was"; }
