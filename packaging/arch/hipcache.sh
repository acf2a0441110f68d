#!/bin/bash
# hipcache for makepkg: BUILDENV=(... hipcache) in makepkg.conf, or !hipcache in a PKGBUILD's options.
[[ -n "$LIBMAKEPKG_BUILDENV_HIPCACHE_SH" ]] && return
LIBMAKEPKG_BUILDENV_HIPCACHE_SH=1

build_options+=('hipcache')
buildenv_functions+=('buildenv_hipcache')

buildenv_hipcache() {
    if check_buildoption "hipcache" "y" && type -p hipcache >/dev/null; then
        export CMAKE_HIP_COMPILER_LAUNCHER=hipcache CMAKE_CXX_COMPILER_LAUNCHER=hipcache HIP_CLANG_LAUNCHER=hipcache
    fi
}
