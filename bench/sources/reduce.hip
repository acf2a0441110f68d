// Sum of squares: the light one of the benchmark's sources.
#include <iostream> // rocPRIM's debug output needs it

#include <hip/hip_runtime.h>
#include <rocprim/device/device_reduce.hpp>

namespace {

/// Squares the values.
__global__ void square(const float* in, float* out, size_t count)
{
    // Values of one thread: what is fastest depends on the architecture.
#if defined(__gfx90a__)
    constexpr size_t items = 4;
#else
    constexpr size_t items = 2;
#endif
    const size_t first = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) * items;
    const size_t step = size_t(gridDim.x) * blockDim.x * items;
    for (size_t start = first; start < count; start += step)
        for (size_t at = start; at < start + items && at < count; ++at)
            out[at] = in[at] * in[at];
}

} // namespace

/// Returns nullptr, or what went wrong. `sum_of_squares` runs on `stream`; `out` has room for `count` values.
const char* sum_of_squares(const float* in, float* middle, float* out, size_t count, hipStream_t stream)
{
    size_t bytes = 0;
    void* scratch = nullptr;
    square<<<256, 256, 0, stream>>>(in, middle, count);
    if (rocprim::reduce(scratch, bytes, middle, out, 0.0f, count, rocprim::plus<float>(), stream) != hipSuccess)
        return "cannot plan the work";
    if (hipMalloc(&scratch, bytes) != hipSuccess)
        return "no device memory";
    const hipError_t status = rocprim::reduce(scratch, bytes, middle, out, 0.0f, count, rocprim::plus<float>(), stream);
    if (hipFree(scratch) != hipSuccess)
        return "cannot free the device memory";
    return status == hipSuccess ? nullptr : hipGetErrorString(status);
}
