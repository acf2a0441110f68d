// Another text for the host and for each device.
#include "hip_in_short.hpp"
#include <stddef.h>
#include <stdint.h>

#if defined(__gfx906__)
#define WIDTH 6
#elif defined(__gfx90a__)
#define WIDTH 90
#elif defined(__HIP_DEVICE_COMPILE__)
#define WIDTH 1
#else
#include <string.h>
#endif

#ifdef WIDTH
__global__ void fill(uint64_t* p) { p[WIDTH] = WIDTH; }
#else
__global__ void fill(uint64_t* p);
void run(uint64_t* p) { memset(p, 0, sizeof *p); fill<<<1, 1>>>(p); }
__global__ void fill(uint64_t*) {}
#endif
