// A matrix turned around, tile by tile.
#include <hip/hip_runtime.h>

#include "check.hpp"

constexpr int tile = 32;

template<class T>
__global__ void transpose(const T* in, T* out, int rows, int columns)
{
    __shared__ T held[tile][tile + 1];
    int x = blockIdx.x * tile + threadIdx.x, y = blockIdx.y * tile + threadIdx.y;
    if(x < columns && y < rows)
        held[threadIdx.y][threadIdx.x] = in[y * columns + x];
    __syncthreads();
    x = blockIdx.y * tile + threadIdx.x;
    y = blockIdx.x * tile + threadIdx.y;
    if(x < rows && y < columns)
        out[y * rows + x] = held[threadIdx.x][threadIdx.y];
}

const char* run_transpose(const double* in, double* out, int rows, int columns)
{
    const dim3 blocks((columns + tile - 1) / tile, (rows + tile - 1) / tile);
    transpose<<<blocks, dim3(tile, tile)>>>(in, out, rows, columns);
    return failure(hipGetLastError());
}

const char* about_transpose() { return "transpose: as it was"; }
