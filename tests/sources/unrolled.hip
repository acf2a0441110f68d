// A back end that has something to say: this loop cannot be unrolled as asked.
#include "hip_in_short.hpp"

__global__ void search(int* p, int n)
{
#pragma unroll
    for (int i = 0; i < n; ++i) {
        if (p[i] == p[n])
            break;
        p[i + n] = i;
    }
}
void run(int* p) { search<<<1, 1>>>(p, 9); }
