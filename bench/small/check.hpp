// A failed call of the runtime, in words; nothing for one that went well.
#pragma once

#include <hip/hip_runtime.h>

inline const char* failure(hipError_t error)
{
    return error == hipSuccess ? nullptr : hipGetErrorString(error);
}
