// Floats to bytes with one scale a row, and back.
#include <hip/hip_runtime.h>
#include <cstdint>
#include <cmath>

#include "check.hpp"

__global__ void quantize(const float* in, int8_t* out, float* scales, int width)
{
    __shared__ float most[64];
    float own = 0;
    for(int i = threadIdx.x; i < width; i += 64)
        own = fmaxf(own, fabsf(in[blockIdx.x * width + i]));
    most[threadIdx.x] = own;
    __syncthreads();
    for(int i = 0; i < 64; ++i)
        own = fmaxf(own, most[i]);
    for(int i = threadIdx.x; i < width; i += 64)
        out[blockIdx.x * width + i] = static_cast<int8_t>(rintf(in[blockIdx.x * width + i] * 127 / own));
    if(threadIdx.x == 0)
        scales[blockIdx.x] = own / 127;
}

__global__ void dequantize(const int8_t* in, const float* scales, float* out, int width)
{
    for(int i = threadIdx.x; i < width; i += blockDim.x)
        out[blockIdx.x * width + i] = in[blockIdx.x * width + i] * scales[blockIdx.x];
}

const char* run_quantize(const float* in, int8_t* small, float* scales, float* out, int rows, int width)
{
    quantize<<<rows, 64>>>(in, small, scales, width);
    dequantize<<<rows, 64>>>(small, scales, out, width);
    return failure(hipGetLastError());
}

const char* about_quantize() { return "quantize: as it was"; }
