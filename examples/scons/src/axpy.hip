#include "axpy/axpy.hpp"
#include "device.hpp"

namespace {

__global__ void kernel(float a, const float* x, float* y, std::size_t count) {
    const std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < count) {
        y[i] = a * x[i] + y[i];
    }
}

}  // namespace

namespace axpy {

bool has_device() {
    int count = 0;
    return hipGetDeviceCount(&count) == hipSuccess && count > 0;
}

void axpy(float a, const std::vector<float>& x, std::vector<float>& y) {
    const Floats on_x(x), on_y(y);
    kernel<<<blocks(x.size()), block>>>(a, on_x.data(), on_y.data(), x.size());
    check(hipGetLastError());
    on_y.copy_to(y);
}

}  // namespace axpy
