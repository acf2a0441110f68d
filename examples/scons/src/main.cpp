#include "axpy/axpy.hpp"

#include <cmath>
#include <iostream>

int main() {
    if (!axpy::has_device()) {
        std::cout << "no device\n";
        return 0;
    }
    const std::vector<float> x(10000, 2.0f);
    std::vector<float> y(10000, 1.0f);
    axpy::axpy(3.0f, x, y);
    const float wanted = 49.0f * 10000;
    const bool right = std::abs(axpy::norm2(y) - wanted) < 1e-3f * wanted;
    std::cout << (right ? "GPU and CPU agree\n" : "GPU and CPU differ\n");
    return right ? 0 : 1;
}
