// Templates over types and sizes, and a kernel for each use.
#include "hip_in_short.hpp"

template <typename T, int N> struct Tile {
    T cells[N];
    __device__ T sum() const
    {
        T total = 0;
        for (int i = 0; i < N; ++i)
            total += cells[i] * cells[(i + 1) % N];
        return total;
    }
};

template <typename T, int N> __global__ void reduce(T* out, const Tile<T, N>* tiles) { out[0] = tiles[1].sum(); }

template <typename T, int N> void launch(T* out, const Tile<T, N>* tiles) { reduce<T, N><<<4, 64>>>(out, tiles); }

template void launch<float, 4>(float*, const Tile<float, 4>*);
template void launch<double, 7>(double*, const Tile<double, 7>*);
template void launch<unsigned char, 33>(unsigned char*, const Tile<unsigned char, 33>*);
