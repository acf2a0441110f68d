// The Mandelbrot set.
#include <hip/hip_runtime.h>
#include <vector>

#include "check.hpp"

__global__ void mandelbrot(unsigned char* image, int width, int height, int most)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if(x >= width || y >= height)
        return;
    const float cr = 3.0f * x / width - 2.0f, ci = 2.0f * y / height - 1.0f;
    float r = 0, i = 0;
    int steps = 0;
    for(; steps < most && r * r + i * i < 4; ++steps)
    {
        const float next = r * r - i * i + cr;
        i = 2 * r * i + ci;
        r = next;
    }
    image[y * width + x] = static_cast<unsigned char>(255 * steps / most);
}

const char* run_mandelbrot(unsigned char* image, int width, int height)
{
    mandelbrot<<<dim3(width / 16 + 1, height / 16 + 1), dim3(16, 16)>>>(image, width, height, 200);
    return failure(hipGetLastError());
}

const char* about_mandelbrot() { return "mandelbrot: as it was"; }
