#include "columns/columns.hpp"
#include "gpu.hpp"

#include <rocprim/device/device_histogram.hpp>

namespace columns {

Column histogram(const Column& values, unsigned bins, std::uint32_t upper)
{
    if (bins == 0) {
        throw std::invalid_argument("histogram: at least one bin is needed");
    }
    Buffer<std::uint32_t> input(values);
    Buffer<std::uint32_t> counts(bins);
    with_scratch("histogram", [&](void* scratch, std::size_t& bytes) {
        return rocprim::histogram_even(scratch, bytes, input.data(), static_cast<unsigned>(input.size()),
                                       counts.data(), bins + 1, std::uint32_t{0}, upper);
    });
    return counts.read();
}

}  // namespace columns
