// Sums of all elements before each, within a block, then of the blocks.
#include <hip/hip_runtime.h>
#include <cstddef>

#include "check.hpp"

__global__ void scan_block(const int* in, int* out, int* sums, int n)
{
    __shared__ int held[2][256];
    const int t = threadIdx.x, i = blockIdx.x * 256 + t;
    int from = 0;
    held[0][t] = i < n ? in[i] : 0;
    __syncthreads();
    for(int reach = 1; reach < 256; reach *= 2, from ^= 1)
    {
        held[from ^ 1][t] = held[from][t] + (t >= reach ? held[from][t - reach] : 0);
        __syncthreads();
    }
    if(i < n)
        out[i] = held[from][t];
    if(t == 255)
        sums[blockIdx.x] = held[from][t];
}

__global__ void add_sums(int* out, const int* sums, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if(i < n && blockIdx.x > 0)
        out[i] += sums[blockIdx.x - 1];
}

const char* run_scan(const int* in, int* out, int* sums, int n)
{
    const int blocks = (n + 255) / 256;
    scan_block<<<blocks, 256>>>(in, out, sums, n);
    scan_block<<<1, 256>>>(sums, sums, sums + blocks, blocks);
    add_sums<<<blocks, 256>>>(out, sums, n);
    return failure(hipGetLastError());
}

const char* about_scan() { return "scan: as it was"; }
