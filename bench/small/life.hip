// Conway's game.
#include <hip/hip_runtime.h>

#include "check.hpp"

__global__ void live(const unsigned char* before, unsigned char* after, int size)
{
    const int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    int around = 0;
    for(int dy = -1; dy <= 1; ++dy)
        for(int dx = -1; dx <= 1; ++dx)
            if(dx != 0 || dy != 0)
                around += before[(y + dy + size) % size * size + (x + dx + size) % size];
    after[y * size + x] = around == 3 || (around == 2 && before[y * size + x]);
}

const char* run_life(unsigned char* one, unsigned char* other, int size, int turns)
{
    for(int turn = 0; turn < turns; ++turn)
        live<<<dim3(size / 16, size / 16), dim3(16, 16)>>>(turn % 2 ? other : one, turn % 2 ? one : other, size);
    return failure(hipGetLastError());
}

const char* about_life() { return "life: as it was"; }
