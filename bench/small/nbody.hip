// Bodies that draw each other.
#include <hip/hip_runtime.h>
#include <cmath>

#include "check.hpp"

__global__ void draw(const float4* bodies, float4* speeds, int n, float step)
{
    __shared__ float4 near[256];
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float4 own = bodies[i];
    float4 speed = speeds[i];
    for(int first = 0; first < n; first += 256)
    {
        near[threadIdx.x] = bodies[first + threadIdx.x];
        __syncthreads();
        for(int j = 0; j < 256; ++j)
        {
            const float x = near[j].x - own.x, y = near[j].y - own.y, z = near[j].z - own.z;
            const float back = rsqrtf(x * x + y * y + z * z + 1e-6f), force = near[j].w * back * back * back * step;
            speed.x += x * force;
            speed.y += y * force;
            speed.z += z * force;
        }
        __syncthreads();
    }
    speeds[i] = speed;
}

__global__ void move(float4* bodies, const float4* speeds, float step)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    bodies[i].x += speeds[i].x * step;
    bodies[i].y += speeds[i].y * step;
    bodies[i].z += speeds[i].z * step;
}

const char* run_nbody(float4* bodies, float4* speeds, int n)
{
    draw<<<n / 256, 256>>>(bodies, speeds, n, 0.01f);
    move<<<n / 256, 256>>>(bodies, speeds, 0.01f);
    return failure(hipGetLastError());
}

const char* about_nbody() { return "nbody: as it was"; }
