// Sums on the GPU beside sums on the CPU.

#include <sums/sums.hpp>

#include <exception>
#include <iostream>
#include <vector>

int main()
try {
    const std::string device = sums::device();
    if (device.empty()) {
        std::cout << "no device\n";
        return 77;
    }
    constexpr int count = 10000;
    std::vector<int> whole;
    std::vector<float> halves;
    for (int i = 1; i <= count; ++i) {
        whole.push_back(i);
        halves.push_back(i % 2 ? 0.5F : 1.0F); // sums of halves are exact
    }
    const bool good = sums::sum(whole) == count * (count + 1) / 2 && sums::sum(halves) == count * 0.75F;
    std::cout << device << ": " << (good ? "the sums are right\n" : "wrong sums\n");
    return good ? 0 : 1;
} catch (const std::exception& error) {
    std::cerr << "sums-check: " << error.what() << '\n';
    return 1;
}
