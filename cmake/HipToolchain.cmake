# Toolchain file for the HIP packages of a distribution: cmake --toolchain $(hipcache --cmakedir)/HipToolchain.cmake ...
# HipCache.cmake includes it where it comes before HIP is enabled.
#
# ROCm's layout has everything under /opt/rocm. Debian spreads it over /usr, where neither clang nor CMake finds all
# of it unasked. Other systems need none of this.

# hipconfig answers "nvidia" on a machine that has nvcc too.
set(CMAKE_HIP_PLATFORM amd)

# HIP's headers and device libraries fit the clang that hipcc uses.
if(NOT DEFINED CMAKE_HIP_COMPILER AND NOT DEFINED ENV{HIPCXX})
  execute_process(COMMAND "${CMAKE_COMMAND}" -E env HIP_PLATFORM=amd hipcc --version
    OUTPUT_VARIABLE hip_said ERROR_QUIET)
  if("${hip_said}" MATCHES "clang version ([0-9]+).*InstalledDir: ([^\n]+)")
    find_program(CMAKE_HIP_COMPILER NAMES "clang++-${CMAKE_MATCH_1}" clang++ PATHS "${CMAKE_MATCH_2}" NO_DEFAULT_PATH)
  endif()
endif()

# Of Debian 12. Newer clangs have the libraries within their own directory.
file(GLOB hip_libraries /usr/lib64/amdgcn/bitcode /usr/lib/amdgcn/bitcode /usr/lib/*/amdgcn/bitcode)
foreach(directory IN LISTS hip_libraries)
  set(CMAKE_HIP_FLAGS_INIT "--rocm-path=/usr --rocm-device-lib-path=${directory}")
endforeach()

# CMake looks for hip-lang in <root>/lib/cmake; newer ones look into <root>/lib/<arch>/cmake as well. Debian 12's 3.25
# does not, so give it a root with that package and what it needs. CMake's own trial builds need it, too.
file(GLOB hip_lang /usr/lib/*/cmake/hip-lang)
if(hip_lang AND CMAKE_VERSION VERSION_LESS 3.28)
  set(CMAKE_HIP_COMPILER_ROCM_ROOT "${CMAKE_BINARY_DIR}/rocm-root")
  file(MAKE_DIRECTORY "${CMAKE_HIP_COMPILER_ROCM_ROOT}/lib/cmake")
  foreach(name IN ITEMS hip-lang AMDDeviceLibs amd_comgr hsa-runtime64)
    file(CREATE_LINK "${hip_lang}/../${name}" "${CMAKE_HIP_COMPILER_ROCM_ROOT}/lib/cmake/${name}" SYMBOLIC)
  endforeach()
  list(APPEND CMAKE_PREFIX_PATH "${CMAKE_HIP_COMPILER_ROCM_ROOT}")
elseif(hip_lang)
  set(CMAKE_HIP_COMPILER_ROCM_ROOT /usr)
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES CMAKE_HIP_PLATFORM CMAKE_HIP_COMPILER_ROCM_ROOT CMAKE_PREFIX_PATH)
