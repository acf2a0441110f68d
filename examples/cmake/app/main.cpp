// Runs every operation on the first GPU and compares with the CPU.
#include "columns/columns.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <numeric>

namespace {

bool all_right = true;

void report(const char* name, bool right)
{
    std::printf("%-14s %s\n", name, right ? "ok" : "WRONG");
    all_right = all_right && right;
}

columns::Column noise(std::size_t size)
{
    columns::Column values(size);
    std::uint32_t state = 12345;
    for (auto& value : values) {
        state = state * 1664525u + 1013904223u;
        value = state >> 22;  // 0 to 1023
    }
    return values;
}

void run()
{
    const auto values = noise(100000);

    auto expected = values;
    std::sort(expected.begin(), expected.end());
    report("sort", columns::sorted(values) == expected);

    std::partial_sum(values.begin(), values.end(), expected.begin());
    report("running total", columns::running_total(values) == expected);

    report("total", columns::total(values) == std::accumulate(values.begin(), values.end(), std::uint64_t{0}));
    report("largest", columns::largest(values) == *std::max_element(values.begin(), values.end()));

    columns::Column counts(16);
    for (auto value : values) {
        ++counts[value / 64];
    }
    report("histogram", columns::histogram(values, 16, 1024) == counts);

    std::transform(values.begin(), values.end(), expected.begin(), [](auto value) { return 3 * value + 7; });
    report("scale", columns::scaled(values, 3, 7) == expected);

    expected.clear();
    std::copy_if(values.begin(), values.end(), std::back_inserter(expected), [](auto value) { return value >= 512; });
    report("select", columns::at_least(values, 512) == expected);
}

}  // namespace

int main()
{
    if (columns::device_count() == 0) {
        std::puts("no device: nothing to run here, but everything is built and linked");
        return 0;
    }
    try {
        std::printf("%s\n", columns::device_name(0).c_str());
        run();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return all_right ? 0 : 1;
}
