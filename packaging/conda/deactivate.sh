# Without variables of its own: conda sources it in the user's shell.
if [ "${CMAKE_HIP_COMPILER_LAUNCHER:-}" = "${CONDA_PREFIX}/bin/hipcache" ]; then
    unset CMAKE_HIP_COMPILER_LAUNCHER
fi
if [ "${CMAKE_CXX_COMPILER_LAUNCHER:-}" = "${CONDA_PREFIX}/bin/hipcache" ]; then
    unset CMAKE_CXX_COMPILER_LAUNCHER
fi
