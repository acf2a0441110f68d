#include "escape.hpp"
#include "mandelbrot.hpp"

std::vector<std::uint32_t> on_host(const View& view)
{
    std::vector<std::uint32_t> counts;
    for (int row = 0; row < view.height; ++row)
        for (int column = 0; column < view.width; ++column)
            counts.push_back(escape(view.left + column * view.step, view.top - row * view.step, view.most));
    return counts;
}
