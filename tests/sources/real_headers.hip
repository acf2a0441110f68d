// HIP's own headers: device functions, printf, launch bounds.
#include <hip/hip_runtime.h>

__device__ __constant__ float weights[4];

__global__ void __launch_bounds__(256) wave(float* p, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        p[i] = sinf(p[i]) * weights[i & 3] + __shfl_xor(p[i], 1);
        atomicAdd(&p[0], 1.0f);
    }
    if (i == 0)
        printf("%d %f\n", n, p[0]);
    __syncthreads();
}

int main()
{
    float* p = nullptr;
    (void)hipMalloc(&p, 1024);
    wave<<<1, 256>>>(p, 256);
    return hipDeviceSynchronize() == hipSuccess ? 0 : 1;
}
