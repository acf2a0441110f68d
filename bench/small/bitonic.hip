// One step of a bitonic sort.
#include <hip/hip_runtime.h>
#include <vector>

#include "check.hpp"

__global__ void bitonic(unsigned* keys, unsigned step, unsigned stage)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ step;
    if(other <= i)
        return;
    const bool up = (i & stage) == 0;
    const unsigned a = keys[i], b = keys[other];
    if((a > b) == up)
    {
        keys[i] = b;
        keys[other] = a;
    }
}

const char* run_bitonic(unsigned* keys, unsigned n)
{
    for(unsigned stage = 2; stage <= n; stage *= 2)
        for(unsigned step = stage / 2; step > 0; step /= 2)
            bitonic<<<n / 256, 256>>>(keys, step, stage);
    return failure(hipGetLastError());
}

const char* about_bitonic() { return "bitonic: as it was"; }
