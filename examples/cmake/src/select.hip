#include "columns/columns.hpp"
#include "gpu.hpp"

#include <rocprim/device/device_select.hpp>

namespace columns {

struct AtLeast {
    std::uint32_t threshold;
    __host__ __device__ bool operator()(std::uint32_t value) const { return value >= threshold; }
};

Column at_least(const Column& values, std::uint32_t threshold)
{
    Buffer<std::uint32_t> input(values);
    Buffer<std::uint32_t> output(values.size());
    Buffer<unsigned> count(1);
    with_scratch("select", [&](void* scratch, std::size_t& bytes) {
        return rocprim::select(scratch, bytes, input.data(), output.data(), count.data(), input.size(),
                               AtLeast{threshold});
    });
    return output.read(count.read().front());
}

}  // namespace columns
