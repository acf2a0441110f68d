#include "columns/columns.hpp"
#include "gpu.hpp"

#include <rocprim/device/device_reduce.hpp>
#include <rocprim/functional.hpp>

namespace columns {

std::uint64_t total(const Column& values)
{
    Buffer<std::uint32_t> input(values);
    Buffer<std::uint64_t> result(1);
    with_scratch("total", [&](void* scratch, std::size_t& bytes) {
        return rocprim::reduce(scratch, bytes, input.data(), result.data(), std::uint64_t{0}, input.size(),
                               rocprim::plus<std::uint64_t>());
    });
    return result.read().front();
}

std::uint32_t largest(const Column& values)
{
    if (values.empty()) {
        throw std::invalid_argument("largest: the column is empty");
    }
    Buffer<std::uint32_t> input(values);
    Buffer<std::uint32_t> result(1);
    with_scratch("largest", [&](void* scratch, std::size_t& bytes) {
        return rocprim::reduce(scratch, bytes, input.data(), result.data(), std::uint32_t{0}, input.size(),
                               rocprim::maximum<std::uint32_t>());
    });
    return result.read().front();
}

}  // namespace columns
