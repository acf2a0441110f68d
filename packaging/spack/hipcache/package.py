# Copyright 2026 The hipcache authors
#
# SPDX-License-Identifier: MIT

import os

from spack.package import *

try:
    from spack_repo.builtin.build_systems.python import PythonPackage
except ImportError:  # before Spack 1.0, where it is one of the names above
    pass


class Hipcache(PythonPackage):
    """Compile cache for AMD HIP that caches every GPU architecture on its own."""

    homepage = "https://example.org/hipcache"
    url = "https://example.org/hipcache/hipcache-1.0.0.tar.gz"

    license("MIT")

    # Without a checksum, as there is no public place yet: spack install --no-checksum.
    version("1.0.0")
    version("main", branch="main", git="https://example.org/hipcache.git")

    depends_on("c", type="build")
    depends_on("python@3.10:", type=("build", "run"))
    depends_on("py-hatchling@1.12:", type="build")
    depends_on("py-pyyaml@6:", type=("build", "run"))
    depends_on("zstd libs=shared", type=("build", "run"))

    def patch(self):
        """Both open it as they need it; there is no common place in which it would be found."""
        library = join_path(self.spec["zstd"].prefix.lib, "libzstd.so.1")
        filter_file('"libzstd.so.1"', f'"{library}"', "plugins/hipcache/base/compression.py", string=True)
        filter_file('"libzstd.so.1"', f'"{library}"', "plugins/hipcache/native/direct/pack.c", string=True)

    def setup_build_environment(self, env):
        env.set("HIPCACHE_BUILD", "package")

    @run_after("install")
    def name_dependencies(self):
        """The launcher starts its engine without PYTHONPATH, by which Spack's Python finds packages."""
        python = self.spec["python"].package
        needed = self.spec.traverse(root=False, deptype="run")
        places = [join_path(one.prefix, lib) for one in needed for lib in sorted({python.platlib, python.purelib})]
        found = [place for place in places if os.path.isdir(place)]
        filter_file("^import sys$", f"import sys; sys.path += {found}", join_path(self.prefix.bin, "hipcache-engine"))

    def setup_dependent_build_environment(self, env, dependent_spec):
        """A package that depends on hipcache is compiled through it. Spack's `config:ccache` is not: its wrapper is
        gone around by CXX=hipcc."""
        env.set("CMAKE_HIP_COMPILER_LAUNCHER", self.prefix.bin.hipcache)
        env.set("CMAKE_CXX_COMPILER_LAUNCHER", self.prefix.bin.hipcache)
        env.set("HIP_CLANG_LAUNCHER", self.prefix.bin.hipcache)
