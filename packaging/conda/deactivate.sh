for variable in CMAKE_HIP_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER; do
    eval "value=\${$variable:-}"
    if [ "$value" = "${CONDA_PREFIX}/bin/hipcache" ]; then
        unset "$variable"
    fi
done
unset variable value
