#include "gpu.hpp"

#include <sums/sums.hpp>

namespace sums {

std::string device()
{
    int count = 0;
    if (hipGetDeviceCount(&count) != hipSuccess || count == 0) return {};
    hipDeviceProp_t properties;
    check(hipGetDeviceProperties(&properties, 0));
    return properties.name;
}

}
