#pragma once

#include <hip/hip_runtime.h>

#include <cstdlib>
#include <iostream>
#include <vector>

inline void check(hipError_t status) {
    if (status != hipSuccess) {
        std::cerr << hipGetErrorString(status) << "\n";
        std::exit(1);
    }
}

// Floats on the device.
class Floats {
public:
    explicit Floats(const std::vector<float>& host) : bytes_(host.size() * sizeof(float)) {
        check(hipMalloc(reinterpret_cast<void**>(&data_), bytes_));
        check(hipMemcpy(data_, host.data(), bytes_, hipMemcpyHostToDevice));
    }
    ~Floats() { (void)hipFree(data_); }
    Floats(const Floats&) = delete;
    Floats& operator=(const Floats&) = delete;

    void copy_to(std::vector<float>& host) const {
        check(hipMemcpy(host.data(), data_, bytes_, hipMemcpyDeviceToHost));
    }
    float* data() const { return data_; }

private:
    float* data_ = nullptr;
    std::size_t bytes_;
};

constexpr unsigned block = 256;

inline unsigned blocks(std::size_t count) { return static_cast<unsigned>((count + block - 1) / block); }
