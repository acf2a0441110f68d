#include "gpu.hpp"

#include <sums/sums.hpp>

namespace sums {

constexpr unsigned threads = 256;

/// One block, a tree: the order of the additions, and so the result, is the same in each run.
__global__ void add_all(const float* values, unsigned count, float* total)
{
    __shared__ float partial[threads];
    float mine = 0;
    for (unsigned i = threadIdx.x; i < count; i += threads) mine += values[i];
    partial[threadIdx.x] = mine;
    for (unsigned half = threads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    }
    if (threadIdx.x == 0) *total = partial[0];
}

float sum(const std::vector<float>& values)
{
    Buffer<float> input(values);
    Buffer<float> total({0});
    add_all<<<1, threads>>>(input.data(), static_cast<unsigned>(values.size()), total.data());
    check(hipGetLastError());
    return read(total.data());
}

}
