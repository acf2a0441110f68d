#pragma once

#include <string>
#include <vector>

namespace sums {

/// The first GPU's name; empty where there is none.
std::string device();

/// The sum of `values`, made on that GPU. Throws std::runtime_error with what HIP says.
int sum(const std::vector<int>& values);
float sum(const std::vector<float>& values);

}
