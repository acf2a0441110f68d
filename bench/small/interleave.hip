// Planes of colours to pixels and back.
#include <hip/hip_runtime.h>
#include <cstdint>

#include "check.hpp"

__global__ void join(const uint8_t* planes, uchar4* pixels, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if(i < n)
        pixels[i] = make_uchar4(planes[i], planes[n + i], planes[2 * n + i], 255);
}

__global__ void part(const uchar4* pixels, uint8_t* planes, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if(i >= n)
        return;
    planes[i] = pixels[i].x;
    planes[n + i] = pixels[i].y;
    planes[2 * n + i] = pixels[i].z;
}

const char* run_interleave(uint8_t* planes, uchar4* pixels, int n)
{
    join<<<(n + 255) / 256, 256>>>(planes, pixels, n);
    part<<<(n + 255) / 256, 256>>>(pixels, planes, n);
    return failure(hipGetLastError());
}

const char* about_interleave() { return "interleave: as it was"; }
