#pragma once

#include <hip/hip_runtime.h>

#include <stdexcept>
#include <vector>

namespace sums {

inline void check(hipError_t status)
{
    if (status != hipSuccess) throw std::runtime_error(hipGetErrorString(status));
}

/// An array on the GPU.
template <class T>
class Buffer {
public:
    explicit Buffer(const std::vector<T>& values)
    {
        check(hipMalloc(&data_, values.size() * sizeof(T)));
        check(hipMemcpy(data_, values.data(), values.size() * sizeof(T), hipMemcpyHostToDevice));
    }
    ~Buffer() { static_cast<void>(hipFree(data_)); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    T* data() const { return data_; }

private:
    T* data_ = nullptr;
};

template <class T>
T read(const T* value)
{
    T result;
    check(hipMemcpy(&result, value, sizeof(T), hipMemcpyDeviceToHost));
    return result;
}

}
