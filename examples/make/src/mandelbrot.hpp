#pragma once

#include <cstdint>
#include <string>
#include <vector>

struct View {
    double left, top, step;
    int width, height, most;
};

// Both give, for each point, after how many steps it escapes.
std::vector<std::uint32_t> on_host(const View& view);
std::string on_device(const View& view, std::vector<std::uint32_t>& counts); // an error's name, empty for none
