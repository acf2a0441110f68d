#include "columns/columns.hpp"
#include "gpu.hpp"

namespace columns {

// Launching an empty kernel shows whether the GPU can run this library's code objects at all.
__global__ void probe(unsigned* answer)
{
    *answer = 42;
}

int device_count()
{
    int count = 0;
    return hipGetDeviceCount(&count) == hipSuccess ? count : 0;
}

std::string device_name(int device)
{
    hipDeviceProp_t properties{};
    check(hipGetDeviceProperties(&properties, device), "ask for the GPU's name");
    Buffer<unsigned> answer(1);
    probe<<<1, 1>>>(answer.data());
    check(hipGetLastError(), "start a kernel");
    const bool runs = answer.read().front() == 42;
    return std::string(properties.name) + (runs ? "" : " (runs no code of this build)");
}

}  // namespace columns
