// Device variables of every linkage; the static ones are named after the CUID.
#include "hip_in_short.hpp"

static __device__ int counter = 3;
__device__ float table[64];
static __constant__ int limits[] = {1, 2, 3, 5, 8};
namespace {
__device__ double hidden = 2.5;
__global__ void step(int* p) { p[0] = counter++ + limits[p[1] & 3] + (int)(table[p[2] & 63] * hidden); }
}

void* addresses[] = {(void*)&counter, (void*)&table, (void*)&limits, (void*)&hidden, (void*)&step};
void run(int* p) { step<<<1, 1>>>(p); }
