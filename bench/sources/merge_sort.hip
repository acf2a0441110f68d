// Merge sort with a comparison of our own.
#include <iostream> // rocPRIM's debug output needs it

#include <hip/hip_runtime.h>
#include <rocprim/device/device_merge_sort.hpp>

namespace {

/// Drops the lowest bits, which hold a tag.
__global__ void drop_tags(const int* in, int* out, size_t count)
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
            out[at] = in[at] & ~0xf;
}

} // namespace

/// Returns nullptr, or what went wrong. `merge_sort` runs on `stream`; `out` has room for `count` values.
const char* merge_sort(const int* in, int* middle, int* out, size_t count, hipStream_t stream)
{
    size_t bytes = 0;
    void* scratch = nullptr;
    drop_tags<<<256, 256, 0, stream>>>(in, middle, count);
    if (rocprim::merge_sort(scratch, bytes, middle, out, count, rocprim::greater<int>(), stream) != hipSuccess)
        return "cannot plan the work";
    if (hipMalloc(&scratch, bytes) != hipSuccess)
        return "no device memory";
    const hipError_t status = rocprim::merge_sort(scratch, bytes, middle, out, count, rocprim::greater<int>(), stream);
    if (hipFree(scratch) != hipSuccess)
        return "cannot free the device memory";
    return status == hipSuccess ? nullptr : hipGetErrorString(status);
}
