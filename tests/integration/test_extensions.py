"""Extensions of Python in HIP: setuptools with hipcc as the compiler, and the command lines of PyTorch's extensions.

PyTorch itself is not here. What stands for it writes its commands as `torch/utils/cpp_extension.py` does (PyTorch 2.x,
commit 0011ec5: `_write_ninja_file`, `unix_wrap_single_compile`, `_get_rocm_arch_flags`, COMMON_HIP_FLAGS,
COMMON_HIPCC_FLAGS), in our words.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cmake_project import HIPCACHE, PROGRAMS, Counted, Project
from hip import HIP_IN_SHORT, LLVM, script

pytestmark = pytest.mark.skipif(not Path("/usr/bin/hipcc").exists(), reason="hipcc is not installed")

KERNELS = """\
#include "hip_in_short.hpp"
#ifdef __HIP_DEVICE_COMPILE__
#include "only_device.hpp"
#endif
#ifndef ADDED
#define ADDED 0
#endif
#ifdef TORCH_EXTENSION_NAME
#define AS_TEXT(x) #x
#define TEXT(x) AS_TEXT(x)
extern const char* const name = TEXT(TORCH_EXTENSION_NAME) PYBIND11_COMPILER_TYPE;
#endif
__global__ void kernel(int* p) { p[0] = p[1] * 3 + ADDED; }
extern "C" int PyInit_extension() { kernel<<<1, 1>>>(nullptr); return 0; }
"""
FLAGS = ["-nogpuinc", "-nogpulib", "-cuid=5eed", "--offload-arch=gfx906", "--offload-arch=gfx90a"]
ARCHS = ("gfx906", "gfx90a")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    # hipcc has to link, too: it would ask the machine for its GPUs.
    project = Project(tmp_path, environ={"HCC_AMDGPU_TARGET": "gfx906,gfx90a"})
    files = {"hip_in_short.hpp": HIP_IN_SHORT, "only_device.hpp": "#define ADDED 4\n", "kernels.hip": KERNELS}
    return project.write({**files, "kernels.cpp": KERNELS, "plain.cpp": "int plain() { return 1; }\n"})


def built(project: Project, *command: str | Path) -> dict[str, bytes]:
    """The objects that a build from scratch makes, by name."""
    build = project.root / "build"
    for path in sorted(build.rglob("*"), reverse=True):
        if path.is_file():
            path.unlink()
    done = project.run(*command)
    assert done.returncode == 0, done.stdout
    assert list(project.root.rglob("extension*.so")), done.stdout
    return {path.name: path.read_bytes() for path in build.rglob("*.o")}


def compiled(sources: int = 1) -> dict[str, int]:
    return {"miss": sources, **{f"{name} compiled": sources for name in (*ARCHS, "host")}}


def test_setup_py_with_hipcc_builds_cold_and_warm(project: Project) -> None:
    project.write(
        {
            "setup.py": f"""\
from setuptools import Extension, setup
extension = Extension("extension", ["kernels.cpp"], extra_compile_args={FLAGS!r})
setup(name="extension", version="1", packages=[], ext_modules=[extension])
"""
        }
    )
    command = ("env", "-C", project.root, sys.executable, "setup.py", "build_ext", "--force")
    project.environ |= {"CC": "/usr/bin/hipcc", "CXX": "/usr/bin/hipcc"}
    plain = built(project, *command)
    assert plain
    for compiler in (
        f"{HIPCACHE} hipcc",
        str(script(project.root / "hipcc", f'exec {HIPCACHE} /usr/bin/hipcc "$@"\n')),
    ):
        project.environ |= {"CC": compiler, "CXX": compiler, "HIPCACHE_DIR": f"{project.root}/{len(compiler)}"}
        counted = Counted(project)
        assert built(project, *command) == plain
        assert counted.compiles() == compiled()
        assert built(project, *command) == plain
        assert counted.compiles() == {"hit": 1}


# What torch.utils.cpp_extension does: with Ninja, in the directory of the build; without, as setuptools compiles.
TORCH_LIKE = r"""
import os, subprocess, sys

root, ninja = sys.argv[1], sys.argv[2:]
build = os.path.join(root, "build")
os.makedirs(build, exist_ok=True)
hipcc = os.path.join(os.environ["ROCM_HOME"], "bin", "hipcc")
archs = os.environ["PYTORCH_ROCM_ARCH"].replace(" ", ";").split(";")

common = ["-D__HIP_PLATFORM_AMD__=1", "-DUSE_ROCM=1", "-DHIPBLAS_V2", "-fPIC"]
device = ["-DCUDA_HAS_FP16=1", "-D__HIP_NO_HALF_OPERATORS__=1", "-D__HIP_NO_HALF_CONVERSIONS__=1"]
device += ["-DHIP_ENABLE_WARP_SYNC_BUILTINS=1", "-nogpuinc", "-nogpulib", "-cuid=5eed"]
device += [*(f"--offload-arch={arch}" for arch in archs), "-fno-gpu-rdc"]
names = ["-DTORCH_EXTENSION_NAME=extension", "-DTORCH_API_INCLUDE_EXTENSION_H"]

if not ninja:
    words = ["-I.", "-c", "kernels.hip", "-o", "build/kernels.o", *names, '-DPYBIND11_COMPILER_TYPE="_gcc"']
    subprocess.check_call([hipcc, *words, *common, *device, "-std=c++17"], cwd=root)
    subprocess.check_call([os.environ["CXX"], "-shared", "build/kernels.o", "-o", "build/extension.so"], cwd=root)
    sys.exit()

flags = [*names, "-DPYBIND11_COMPILER_TYPE=\\\"_gcc\\\"", "-I" + root, "-isystem /usr/include/linux"]
flags += ["-fPIC", "-std=c++17"]
with open(os.path.join(build, "build.ninja"), "w") as file:
    print("cxx =", os.environ["CXX"], file=file)
    print("nvcc =", os.environ.get("PYTORCH_NVCC", hipcc), file=file)
    print("cflags =", *flags, file=file)
    print("post_cflags =", *common, file=file)
    print("cuda_cflags =", "-DWITH_HIP", *flags, *common, *device, file=file)
    print("rule compile\n  command = $cxx -MMD -MF $out.d $cflags -c $in -o $out $post_cflags", file=file)
    print("  depfile = $out.d\n  deps = gcc", file=file)
    print("rule cuda_compile\n  command = $nvcc  $cuda_cflags -c $in -o $out $cuda_post_cflags", file=file)
    print("rule link\n  command = $cxx $in -shared -o $out", file=file)
    print(f"build plain.o: compile {root}/plain.cpp", file=file)
    print(f"build kernels.cuda.o: cuda_compile {root}/kernels.hip", file=file)
    print("build extension.so: link plain.o kernels.cuda.o", file=file)
sys.exit(subprocess.call([*ninja, "-v"], cwd=build))
"""


@pytest.fixture
def torch_like(project: Project) -> Project:
    project.write({"torch_like.py": TORCH_LIKE})
    project.environ |= {"ROCM_HOME": "/usr", "PYTORCH_ROCM_ARCH": "gfx906;gfx90a", "CXX": "g++"}
    return project


def test_pytorch_extensions_with_ninja_take_hipcache_by_pytorch_nvcc(torch_like: Project) -> None:
    command = (sys.executable, torch_like.root / "torch_like.py", torch_like.root, PROGRAMS / "ninja")
    plain = built(torch_like, *command)
    assert set(plain) == {"plain.o", "kernels.cuda.o"}
    torch_like.environ["PYTORCH_NVCC"] = f"{HIPCACHE} hipcc"
    counted = Counted(torch_like)
    assert built(torch_like, *command) == plain
    assert counted.compiles() == compiled()
    assert built(torch_like, *command) == plain
    assert counted.compiles() == {"hit": 1}
    torch_like.environ["PYTORCH_ROCM_ARCH"] = "gfx906 gfx90a gfx1030"
    built(torch_like, *command)
    assert counted.compiles() == {"partial": 1, "gfx1030 compiled": 1}


def test_pytorch_extensions_without_ninja_take_a_directory_for_hip_clang_path(torch_like: Project) -> None:
    """There hipcc is named with its full path; PYTORCH_NVCC is not looked at."""
    command = (sys.executable, torch_like.root / "torch_like.py", torch_like.root)
    plain = built(torch_like, *command)
    torch_like.environ["PYTORCH_NVCC"] = f"{HIPCACHE} hipcc"
    counted = Counted(torch_like)
    assert built(torch_like, *command) == plain
    assert counted.compiles() == {}
    directory = torch_like.root / "clang"
    (directory / "bin").mkdir(parents=True)
    (directory / "lib").symlink_to(LLVM["15"] / "lib")
    script(directory / "bin" / "clang++-15", f'exec {HIPCACHE} {LLVM["15"]}/bin/clang++ "$@"\n')
    torch_like.environ["HIP_CLANG_PATH"] = str(directory / "bin")
    assert built(torch_like, *command) == plain
    assert counted.compiles() == compiled()
    assert built(torch_like, *command) == plain
    assert counted.compiles() == {"hit": 1}


def test_pytorch_extensions_without_ninja_take_a_rocm_home_with_a_script(torch_like: Project) -> None:
    """A directory with links to all that ROCM_HOME has, and a script for hipcc."""
    command = (sys.executable, torch_like.root / "torch_like.py", torch_like.root)
    plain = built(torch_like, *command)
    home = torch_like.root / "rocm"
    (home / "bin").mkdir(parents=True)
    script(home / "bin" / "hipcc", f'exec {HIPCACHE} /usr/bin/hipcc "$@"\n')
    torch_like.environ["ROCM_HOME"] = str(home)
    counted = Counted(torch_like)
    for expected in (compiled(), {"hit": 1}):
        assert built(torch_like, *command) == plain
        assert counted.compiles() == expected
