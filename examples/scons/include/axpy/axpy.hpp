#pragma once

#include <vector>

namespace axpy {

bool has_device();

// y = a * x + y
void axpy(float a, const std::vector<float>& x, std::vector<float>& y);

// Sum of squares.
float norm2(const std::vector<float>& x);

}  // namespace axpy
