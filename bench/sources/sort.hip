// Radix sort of 32-bit keys: the heavy one of the benchmark's sources.
#include <iostream> // rocPRIM's debug output needs it

#include <hip/hip_runtime.h>
#include <rocprim/device/device_radix_sort.hpp>

namespace {

/// Makes signed keys sort like unsigned ones.
__global__ void flip_signs(const unsigned* in, unsigned* out, size_t count)
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
            out[at] = in[at] ^ 0x80000000u;
}

} // namespace

/// Returns nullptr, or what went wrong. `sort_keys` runs on `stream`; `out` has room for `count` values.
const char* sort_keys(const unsigned* in, unsigned* middle, unsigned* out, size_t count, hipStream_t stream)
{
    size_t bytes = 0;
    void* scratch = nullptr;
    flip_signs<<<256, 256, 0, stream>>>(in, middle, count);
    if (rocprim::radix_sort_keys(scratch, bytes, middle, out, count, 0, 32, stream) != hipSuccess)
        return "cannot plan the work";
    if (hipMalloc(&scratch, bytes) != hipSuccess)
        return "no device memory";
    const hipError_t status = rocprim::radix_sort_keys(scratch, bytes, middle, out, count, 0, 32, stream);
    if (hipFree(scratch) != hipSuccess)
        return "cannot free the device memory";
    return status == hipSuccess ? nullptr : hipGetErrorString(status);
}
