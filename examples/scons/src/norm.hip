#include "axpy/axpy.hpp"
#include "device.hpp"

namespace {

__global__ void kernel(const float* x, float* sums, std::size_t count) {
    __shared__ float part[block];
    float sum = 0;
    const std::size_t step = std::size_t(blockDim.x) * gridDim.x;
    for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
        sum += x[i] * x[i];
    }
    part[threadIdx.x] = sum;
    for (unsigned half = block / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            part[threadIdx.x] += part[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = part[0];
    }
}

}  // namespace

namespace axpy {

float norm2(const std::vector<float>& x) {
    std::vector<float> sums(64);
    const Floats on_x(x), on_sums(sums);
    kernel<<<static_cast<unsigned>(sums.size()), block>>>(on_x.data(), on_sums.data(), x.size());
    check(hipGetLastError());
    on_sums.copy_to(sums);
    float sum = 0;
    for (const float one : sums) {
        sum += one;
    }
    return sum;
}

}  // namespace axpy
