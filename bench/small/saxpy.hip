// y = a x + y.
#include <hip/hip_runtime.h>
#include <vector>

#include "check.hpp"

__global__ void saxpy(float a, const float* x, float* y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if(i < n)
        y[i] = a * x[i] + y[i];
}

const char* run_saxpy(float a, const float* x, float* y, int n)
{
    saxpy<<<(n + 255) / 256, 256>>>(a, x, y, n);
    return failure(hipGetLastError());
}

const char* about_saxpy() { return "saxpy: as it was"; }
