// What every operation needs: memory that frees itself, and errors as exceptions.
#pragma once

#include <hip/hip_runtime.h>

#include <cstddef>
#include <iostream>  // rocPRIM 5.3 uses std::cout and does not include it
#include <stdexcept>
#include <string>
#include <vector>

namespace columns {

inline void check(hipError_t status, const char* what)
{
    if (status != hipSuccess) {
        throw std::runtime_error(std::string(what) + ": " + hipGetErrorString(status));
    }
}

// An array of `T` on the GPU.
template <typename T>
class Buffer {
public:
    explicit Buffer(std::size_t size) : size_(size)
    {
        // An empty allocation yields a null pointer, which rocPRIM takes as a question for the size.
        check(hipMalloc(reinterpret_cast<void**>(&data_), (size ? size : 1) * sizeof(T)), "allocate");
    }
    explicit Buffer(const std::vector<T>& values) : Buffer(values.size())
    {
        check(hipMemcpy(data_, values.data(), size_ * sizeof(T), hipMemcpyHostToDevice), "copy to the GPU");
    }
    ~Buffer() { static_cast<void>(hipFree(data_)); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    T* data() { return data_; }
    std::size_t size() const { return size_; }

    std::vector<T> read(std::size_t count) const
    {
        std::vector<T> values(count);
        check(hipMemcpy(values.data(), data_, count * sizeof(T), hipMemcpyDeviceToHost), "copy from the GPU");
        return values;
    }
    std::vector<T> read() const { return read(size_); }

private:
    T* data_ = nullptr;
    std::size_t size_;
};

// rocPRIM's calling convention: once without memory, which tells how much is needed, then once with it.
template <typename Operation>
void with_scratch(const char* what, Operation operation)
{
    std::size_t bytes = 0;
    check(operation(static_cast<void*>(nullptr), bytes), what);
    Buffer<char> scratch(bytes);
    check(operation(static_cast<void*>(scratch.data()), bytes), what);
}

}  // namespace columns
