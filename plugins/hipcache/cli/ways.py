"""For `hipcache doctor`: what the ways of compiling HIP make of this machine. HIP's platform, hipcc, CMake, variables,
and the precompiled header."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from hipcache.cli import arches
from hipcache.cli.directories import PLACES, find
from hipcache.cli.toolchain import FAULT, NOTE, OK, PROBED, Check, Machine, resolve, rocm_roots
from hipcache.errors import HipcacheError
from hipcache.patterns import pattern

# Each says for which architectures to compile: to CMake's HIP support, to projects that compile HIP as C++, to
# composable_kernel, to PyTorch, to hipcc.
_ARCHITECTURES = (
    *("CMAKE_HIP_ARCHITECTURES", "GPU_TARGETS", "AMDGPU_TARGETS", "GPU_ARCHS", "PYTORCH_ROCM_ARCH"),
    "HCC_AMDGPU_TARGET",
)
# Options of the compiler, among them perhaps architectures: for CMake's HIP support and SCons, for make, CMake and
# setup.py, for hipcc.
_OPTIONS = ("HIPFLAGS", "CXXFLAGS", "CFLAGS", "HIPCC_COMPILE_FLAGS_APPEND", "CMAKE_HIP_FLAGS", "CMAKE_CXX_FLAGS")
# An entry of CMakeCache.txt: NAME:TYPE=VALUE (manual of cmake(1), "CMakeCache.txt").
_CACHED = pattern(r"^(\w+):\w+=(.*)$", re.MULTILINE)
_ARCHITECTURE_OPTION = pattern(r"--(?:offload-arch|cuda-gpu-arch|amdgpu-target)[= ]([^ \"']+)")
# Read by compilers, hipcc and CMake's HIP support: a stray one explains much.
_VARIABLES = (
    *("HSA_OVERRIDE_GFX_VERSION", "HIP_PATH", "ROCM_PATH", "HIP_DEVICE_LIB_PATH", "HIP_CLANG_PATH"),
    *("HIP_CLANG_LAUNCHER", "HIPCXX", "HIPFLAGS", "PYTORCH_NVCC", "CMAKE_HIP_COMPILER_LAUNCHER"),
    *("HIPCC_COMPILE_FLAGS_APPEND", "CCC_OVERRIDE_OPTIONS", "CPATH", "CPLUS_INCLUDE_PATH"),
)
# hipcc is a script in Perl that starts another one, or the binary; newer ones have the name of the variable in them.
_HIPCC_FILES = ("hipcc", "hipcc.pl", "hipcc.bin")
_LAUNCHER = "HIP_CLANG_LAUNCHER"


def check_platform(machine: Machine) -> Iterator[Check]:
    """hipconfig decides for NVIDIA if it sees nvcc; CMake and hipcc then do not compile for AMD at all."""
    hipconfig = resolve("hipconfig", machine.environ)
    platform = machine.environ.get("HIP_PLATFORM", "")
    if not platform and hipconfig:
        try:
            answer = machine.runner.run([hipconfig, "--platform"], env=machine.environ)
            platform = answer.stdout.decode("utf-8", "replace").strip()
        except OSError as error:
            yield Check(NOTE, f"'{hipconfig}' does not start: {error.strerror}")
    nvcc = resolve("nvcc", machine.environ)
    if platform in ("amd", "hcc"):
        yield Check(OK, "HIP's platform is AMD")
    elif platform:
        why = f" (there is '{nvcc}')" if nvcc and "HIP_PLATFORM" not in machine.environ else ""
        yield Check(
            FAULT, f"HIP's platform is '{platform}'{why}", "export HIP_PLATFORM=amd; CMake: -DCMAKE_HIP_PLATFORM=amd"
        )
    elif nvcc:
        yield Check(NOTE, f"'{nvcc}' exists, and HIP may choose it", "export HIP_PLATFORM=amd")
    else:
        yield Check(OK, "there is no nvcc that HIP could choose instead")
    yield from check_hipcc(machine, platform in ("", "amd", "hcc"))
    yield from check_architectures(machine)
    for variable in _VARIABLES:
        if machine.environ.get(variable):
            yield Check(NOTE, f"{variable} is set: {machine.environ[variable]}")


def check_hipcc(machine: Machine, for_amd: bool) -> Iterator[Check]:
    """Are the compiles of this hipcc cached, if it compiles for AMD? And does it run its clang through
    HIP_CLANG_LAUNCHER? An older one ignores it without a word."""
    hipcc = resolve("hipcc", machine.environ) or next(
        (found for root in rocm_roots(machine) if (found := resolve(str(root / "bin" / "hipcc"), machine.environ))), ""
    )
    reads = _reads_launcher(hipcc) if hipcc else None
    if reads is None:
        return
    left = for_amd and machine.why_passed_through([hipcc, f"--offload-arch={PROBED[0]}"], machine.environ)
    if left:
        hint = "name clang itself in its place (CXX), with '-x hip' and the options that 'HIPCC_VERBOSE=1 hipcc' prints"
        yield Check(FAULT, f"hipcache does not cache the compiles of '{hipcc}': {left}", hint)
    launcher = machine.environ.get(_LAUNCHER, "")
    if not reads:
        text = f"{_LAUNCHER} is set, but '{hipcc}' does not read it" if launcher else f"'{hipcc}' reads no {_LAUNCHER}"
        before = f'put hipcache before hipcc (make CXX="hipcache {Path(hipcc).name}")'
        hint = f"{before}, or let HIP_CLANG_PATH name a directory of scripts that do so (examples/README.md)"
        yield Check(NOTE if launcher else OK, text, hint)
    elif launcher and not resolve(launcher, machine.environ) and not resolve(launcher.split()[0], machine.environ):
        yield Check(
            FAULT,
            f"{_LAUNCHER} is '{launcher}', which is not a program: each compile by '{hipcc}' fails",
            f"export {_LAUNCHER}=$(command -v hipcache), or unset it",
        )
    else:
        yield Check(OK, f"'{hipcc}' runs its clang through {_LAUNCHER}")


def _reads_launcher(hipcc: str) -> bool | None:
    """Does hipcc read the variable of a launcher? None if it is not ROCm's, but somebody's script."""
    directory = os.path.dirname(os.path.realpath(hipcc))
    try:
        with open(hipcc, "rb") as file:
            start = file.readline(100)
    except OSError:
        return None
    if start.startswith(b"#!") and b"perl" not in start:
        return None
    for name in _HIPCC_FILES:
        try:
            if _LAUNCHER.encode() in Path(directory, name).read_bytes():
                return True
        except OSError:
            continue
    return False


def check_architectures(machine: Machine) -> Iterator[Check]:
    """The variables that name architectures, in the environment and in CMake's cache, and which of them do not say the
    same."""
    lists: dict[str, frozenset[str]] = {}
    for where, variables in (("", machine.environ), (f" in '{machine.build}/CMakeCache.txt'", _cached(machine.build))):
        for name in _ARCHITECTURES:
            if variables.get(name):
                yield Check(NOTE, f"{name} is set{where}: {variables[name]}")
                lists[name + where] = frozenset(re.split(r"[;,\s]+", variables[name].strip("; ,\t")))
        for name in _OPTIONS:
            words = _ARCHITECTURE_OPTION.findall(variables.get(name, ""))
            if words:
                lists[name + where] = frozenset(arch for word in words for arch in word.split(",") if arch)
                yield Check(NOTE, f"{name}{where} names architectures: {_listed(lists[name + where])}")
    every = frozenset[str]().union(*lists.values())
    lacking = [f"{name} lacks {_listed(every - archs)}" for name, archs in lists.items() if every - archs]
    if lacking:
        hint = "different build tools read different ones, so they would compile for different GPUs"
        yield Check(NOTE, f"they disagree: {', '.join(lacking)}", hint)


def _cached(build: Path) -> dict[str, str]:
    """The variables in the cache of CMake for the build directory; none if it has no cache."""
    try:
        return dict(_CACHED.findall((build / "CMakeCache.txt").read_text("utf-8", "replace")))
    except OSError:
        return {}


def _listed(archs: frozenset[str]) -> str:
    return " ".join(sorted(archs, key=arches.order))


def check_found_by_cmake(environ: Mapping[str, str]) -> Iterator[Check]:
    """find_package() looks beside the directories on PATH, not where a link in one leads (pipx and uv make those)."""
    program = resolve("hipcache", environ)
    prefix = Path(program).absolute().parent.parent
    known = ("CMAKE_PREFIX_PATH", "HipCache_ROOT", "HipCache_DIR")
    if not program or not os.path.islink(program) or any(environ.get(name) for name in known):
        return
    with suppress(HipcacheError):
        installed = find("cmake")
        if not (prefix / PLACES["cmake"][0]).is_dir():
            hint = f"export HipCache_ROOT={installed}, or CMake: -DHipCache_DIR={installed}"
            yield Check(
                NOTE,
                f"'{program}' is a symbolic link: find_package(HipCache) does not find the package behind it",
                hint,
            )
