#include "gpu.hpp"

#include <sums/sums.hpp>

namespace sums {

__global__ void add_all(const int* values, unsigned count, int* total)
{
    int mine = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) mine += values[i];
    atomicAdd(total, mine);
}

int sum(const std::vector<int>& values)
{
    Buffer<int> input(values);
    Buffer<int> total({0});
    add_all<<<64, 256>>>(input.data(), static_cast<unsigned>(values.size()), total.data());
    check(hipGetLastError());
    return read(total.data());
}

}
