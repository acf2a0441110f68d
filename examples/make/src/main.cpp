#include <cstdio>

#include "mandelbrot.hpp"

int main()
{
    const View view{-2.2, 1.2, 0.04, 76, 61, 200};
    const auto expected = on_host(view);
    for (int row = 0; row < view.height; row += 2) {
        for (int column = 0; column < view.width; ++column)
            std::putchar(expected[row * view.width + column] < 200 ? ' ' : '#');
        std::putchar('\n');
    }
    std::vector<std::uint32_t> counts;
    const std::string error = on_device(view, counts);
    if (!error.empty()) {
        std::printf("no device: %s\n", error.c_str());
        return 77;
    }
    std::puts(counts == expected ? "GPU and CPU agree" : "GPU and CPU differ");
    return counts == expected ? 0 : 1;
}
