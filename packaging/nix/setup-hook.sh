# Switches hipcache on for a derivation that has it in nativeBuildInputs, where its store is in the sandbox (module.nix).
hipcacheEnv() {
    if [ -w "${HIPCACHE_DIR:-/var/cache/hipcache}" ]; then
        export HIPCACHE_DIR="${HIPCACHE_DIR:-/var/cache/hipcache}" HIPCACHE_UMASK=007
        export CMAKE_HIP_COMPILER_LAUNCHER=hipcache CMAKE_CXX_COMPILER_LAUNCHER=hipcache HIP_CLANG_LAUNCHER=hipcache
    fi
}
preConfigureHooks+=(hipcacheEnv)
