#include "escape.hpp"
#include "mandelbrot.hpp"

namespace {

__global__ void points(View view, std::uint32_t* counts)
{
    const int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= view.width * view.height)
        return;
    const int column = place % view.width, row = place / view.width;
    counts[place] = escape(view.left + column * view.step, view.top - row * view.step, view.most);
}

} // namespace

std::string on_device(const View& view, std::vector<std::uint32_t>& counts)
{
    const int size = view.width * view.height;
    counts.resize(size);
    std::uint32_t* memory = nullptr;
    hipError_t status = hipMalloc(&memory, size * sizeof(std::uint32_t));
    if (status == hipSuccess) {
        points<<<(size + 255) / 256, 256>>>(view, memory);
        status = hipGetLastError();
    }
    if (status == hipSuccess)
        status = hipMemcpy(counts.data(), memory, size * sizeof(std::uint32_t), hipMemcpyDeviceToHost);
    if (memory)
        (void)hipFree(memory);
    return status == hipSuccess ? "" : hipGetErrorName(status);
}
