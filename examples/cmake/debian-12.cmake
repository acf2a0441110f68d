# Toolchain file for Debian's own HIP packages: cmake --toolchain debian-12.cmake ...
#
# ROCm's layout has everything under /opt/rocm. Debian spreads it over /usr, where neither clang nor CMake finds all
# of it unasked. Other systems need none of this.

if(NOT DEFINED CMAKE_HIP_COMPILER)
  set(CMAKE_HIP_COMPILER /usr/bin/clang++-15)
endif()

# hipconfig answers "nvidia" on a machine that has nvcc too.
set(CMAKE_HIP_PLATFORM amd)

set(CMAKE_HIP_FLAGS_INIT
  "--rocm-path=/usr --rocm-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode")

# CMake looks for hip-lang in <root>/lib/cmake; newer ones look into <root>/lib/<arch>/cmake as well. Debian 12's 3.25
# does not, so give it a root with that path. A toolchain file reaches CMake's own trial builds, a cache variable does not.
if(CMAKE_VERSION VERSION_LESS 3.28)
  set(CMAKE_HIP_COMPILER_ROCM_ROOT "${CMAKE_BINARY_DIR}/rocm-root")
  file(MAKE_DIRECTORY "${CMAKE_HIP_COMPILER_ROCM_ROOT}/lib")
  file(CREATE_LINK /usr/lib/x86_64-linux-gnu/cmake "${CMAKE_HIP_COMPILER_ROCM_ROOT}/lib/cmake" SYMBOLIC)
  list(APPEND CMAKE_PREFIX_PATH "${CMAKE_HIP_COMPILER_ROCM_ROOT}")
else()
  set(CMAKE_HIP_COMPILER_ROCM_ROOT /usr)
endif()
