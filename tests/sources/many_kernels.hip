// Many kernels, shared memory, recursion of macros, and names that need care.
#include "hip_in_short.hpp"

#define KERNEL(name, op) \
    __global__ void name(float* a, const float* b) \
    { \
        __shared__ float tile[256]; \
        tile[3] = b[1] op a[2]; \
        a[0] = tile[(int)b[0] & 255] op 2.5f; \
    }
#define FOUR(name) KERNEL(name##_add, +) KERNEL(name##_sub, -) KERNEL(name##_mul, *) KERNEL(name##_div, /)
namespace näme {
FOUR(one) FOUR(two) FOUR(three) FOUR(four) FOUR(five) FOUR(six)
}
struct Functor {
    template <typename F> static __global__ void apply(F f, int* p) { p[0] = f(p[1]); }
};
struct Plus {
    __device__ int operator()(int value) const { return value + 1; }
};
void run(float* a, int* p)
{
    näme::one_add<<<1, 1>>>(a, a);
    näme::six_div<<<1, 1>>>(a, a);
    Functor::apply<<<1, 1>>>(Plus(), p);
}
