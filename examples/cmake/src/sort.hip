#include "columns/columns.hpp"
#include "gpu.hpp"

#include <rocprim/device/device_radix_sort.hpp>

namespace columns {

Column sorted(const Column& values)
{
    Buffer<std::uint32_t> input(values);
    Buffer<std::uint32_t> output(values.size());
    with_scratch("sort", [&](void* scratch, std::size_t& bytes) {
        return rocprim::radix_sort_keys(scratch, bytes, input.data(), output.data(), input.size());
    });
    return output.read();
}

}  // namespace columns
