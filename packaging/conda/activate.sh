# hipcache in an environment of conda: switched on by CONDA_HIPCACHE=1, for builds by conda-build and for users.
if [ "${CONDA_HIPCACHE:-0}" = 1 ] && [ -z "${CMAKE_HIP_COMPILER_LAUNCHER:-}" ]; then
    export CMAKE_HIP_COMPILER_LAUNCHER="${CONDA_PREFIX}/bin/hipcache"
    export CMAKE_CXX_COMPILER_LAUNCHER="${CMAKE_CXX_COMPILER_LAUNCHER:-${CONDA_PREFIX}/bin/hipcache}"
fi
