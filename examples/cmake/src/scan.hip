#include "columns/columns.hpp"
#include "gpu.hpp"

#include <rocprim/device/device_scan.hpp>
#include <rocprim/functional.hpp>

namespace columns {

Column running_total(const Column& values)
{
    Buffer<std::uint32_t> input(values);
    Buffer<std::uint32_t> output(values.size());
    with_scratch("running total", [&](void* scratch, std::size_t& bytes) {
        return rocprim::inclusive_scan(scratch, bytes, input.data(), output.data(), input.size(),
                                       rocprim::plus<std::uint32_t>());
    });
    return output.read();
}

}  // namespace columns
