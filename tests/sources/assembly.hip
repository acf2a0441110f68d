// Inline assembly on both sides, and warnings on both.
#include "hip_in_short.hpp"

__global__ void wait(int* p)
{
#ifdef __HIP_DEVICE_COMPILE__
    int result;
    asm volatile("v_mov_b32 %0, 42" : "=v"(result));
    asm volatile("s_waitcnt vmcnt(0)");
    p[0] = result;
#endif
    int forgotten;
}
int host(int value)
{
    int result;
    asm("leal 3(%1), %0" : "=r"(result) : "r"(value));
    return result;
}
void run(int* p) { wait<<<1, 1>>>(p); }
