# For debian/rules of a package that compiles HIP: -include /usr/share/hipcache/hipcache.mk
# Does nothing unless the builder names a store (HIPCACHE_DIR); see sbuildrc and pbuilderrc.
ifneq (,$(HIPCACHE_DIR))
ifneq (,$(wildcard /usr/bin/hipcache))
export CMAKE_HIP_COMPILER_LAUNCHER := hipcache
export CMAKE_CXX_COMPILER_LAUNCHER := hipcache
export HIP_CLANG_LAUNCHER := hipcache
endif
endif
