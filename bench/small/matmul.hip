// A product of matrices by tiles in shared memory.
#include <hip/hip_runtime.h>
#include <vector>

#include "check.hpp"

constexpr int tile = 16;

__global__ void matmul(const float* a, const float* b, float* c, int n)
{
    __shared__ float as[tile][tile], bs[tile][tile];
    const int row = blockIdx.y * tile + threadIdx.y, column = blockIdx.x * tile + threadIdx.x;
    float sum = 0;
    for(int k = 0; k < n; k += tile)
    {
        as[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for(int i = 0; i < tile; ++i)
            sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

const char* run_matmul(const float* a, const float* b, float* c, int n)
{
    if(n % tile != 0)
        return "the size is no multiple of a tile";
    matmul<<<dim3(n / tile, n / tile), dim3(tile, tile)>>>(a, b, c, n);
    return failure(hipGetLastError());
}

const char* about_matmul() { return "matmul: as it was"; }
