// Rows with mean 0 and variance 1.
#include <hip/hip_runtime.h>
#include <cmath>

#include "check.hpp"

__global__ void layer_norm(const float* in, float* out, int width, float epsilon)
{
    __shared__ float sums[256], squares[256];
    const float* row = in + blockIdx.x * width;
    float sum = 0, square = 0;
    for(int i = threadIdx.x; i < width; i += 256)
    {
        sum += row[i];
        square += row[i] * row[i];
    }
    sums[threadIdx.x] = sum;
    squares[threadIdx.x] = square;
    __syncthreads();
    for(int half = 128; half > 0; half /= 2)
    {
        if(threadIdx.x < half)
        {
            sums[threadIdx.x] += sums[threadIdx.x + half];
            squares[threadIdx.x] += squares[threadIdx.x + half];
        }
        __syncthreads();
    }
    const float mean = sums[0] / width, scale = rsqrtf(squares[0] / width - mean * mean + epsilon);
    for(int i = threadIdx.x; i < width; i += 256)
        out[blockIdx.x * width + i] = (row[i] - mean) * scale;
}

const char* run_layer_norm(const float* in, float* out, int rows, int width)
{
    layer_norm<<<rows, 256>>>(in, out, width, 1e-5f);
    return failure(hipGetLastError());
}

const char* about_layer_norm() { return "layer_norm: as it was"; }
