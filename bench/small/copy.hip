// Copies with and without vectors.
#include <hip/hip_runtime.h>
#include <vector>

#include "check.hpp"

template<class T>
__global__ void copy(const T* from, T* to, long n)
{
    for(long i = blockIdx.x * static_cast<long>(blockDim.x) + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        to[i] = from[i];
}

const char* run_copy(const float* from, float* to, long n)
{
    if(n % 4 == 0)
        copy<<<240, 256>>>(reinterpret_cast<const float4*>(from), reinterpret_cast<float4*>(to), n / 4);
    else
        copy<<<240, 256>>>(from, to, n);
    hipDeviceSynchronize();
    return nullptr;
}

const char* about_copy() { return "copy: as it was"; }
