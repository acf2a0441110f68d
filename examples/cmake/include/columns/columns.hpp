// Operations on columns of numbers. Callers see vectors; the GPU stays behind this header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace columns {

using Column = std::vector<std::uint32_t>;

// How many GPUs there are; 0 as well when there is no driver.
int device_count();
std::string device_name(int device);

Column sorted(const Column& values);
Column running_total(const Column& values);
std::uint64_t total(const Column& values);
std::uint32_t largest(const Column& values);
// Counts of the values in `bins` ranges of equal width between 0 and `upper`.
Column histogram(const Column& values, unsigned bins, std::uint32_t upper);
// a * values + b, element by element.
Column scaled(const Column& values, std::uint32_t a, std::uint32_t b);
// The values that are at least `threshold`, in their order.
Column at_least(const Column& values, std::uint32_t threshold);

}  // namespace columns
