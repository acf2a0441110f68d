"""`hipcache doctor`: does everything that a cached HIP compile needs work here, and if not, what to do."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hipcache import config
from hipcache.app import trial
from hipcache.base import compression, features, native
from hipcache.base.errors import ConfigError, HipcacheError, StoreError
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass, replace
from hipcache.cli import Console
from hipcache.cli.screen import Screen, arch_order, human_size, plural
from hipcache.cli.toolchain import (
    FAULT,
    NOTE,
    OK,
    PLACES,
    PROBED,
    Check,
    Machine,
    Toolchain,
    Trial,
    compilers,
    examine,
    resolve,
    rocm_roots,
    support_files,
)
from hipcache.processes.runner import SubprocessRunner
from hipcache.report import conditions, stats_log
from hipcache.store.local import open_store

SUMMARY = "check compiler, HIP, device libraries, store and settings"

_COLOURS = {OK: "green", NOTE: "yellow", FAULT: "red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--compiler", action="append", default=[], metavar="CLANG++", help="check this one (may be repeated)"
    )
    parser.add_argument(
        "--brief",
        action="store_true",
        help="print only problems that prevent caching; check only the settings, the store and the named compilers",
    )
    parser.add_argument(
        "--build",
        type=Path,
        metavar="DIRECTORY",
        help="also check the architectures in this build directory's CMakeCache.txt",
    )

    parser.add_argument(
        "--try",
        action="store_true",
        dest="builds",
        help="also build a small project with each build tool here, and print the command that worked",
    )


def run(options: argparse.Namespace, console: Console) -> int:
    if options.build and not (options.build / "CMakeCache.txt").is_file():
        hint = "name a build directory that CMake has configured"
        raise HipcacheError(f"there is no 'CMakeCache.txt' in '{options.build}'", hint)
    if options.brief:
        try:
            found = conditions.of_settings(config.load(console.environ))
        except ConfigError as error:
            found = (conditions.of_wrong_settings(error),)
        found += tuple(filter(None, (trial.condition(name, console.environ) for name in options.compiler)))
        for condition in found:
            print(f"{condition.describe()}; {condition.hint}", file=console.out)
        return 1 if found else 0
    return examine_all(options.compiler, console, Path("/"), options.build or Path(), builds=options.builds)


def examine_all(
    named: list[str],
    console: Console,
    root: Path,
    build: Path,
    tried: Trial = trial.why_passed_through,
    *,
    builds: bool = False,
) -> int:
    machine = Machine(console.runner, console.environ, root, build, tried)
    screen = Screen(console.out, console.environ)
    faults = 0
    for title, checks in (
        ("Compilers", check_compilers(named, machine)),
        ("Settings", check_settings(console)),
        ("Platform", check_platform(machine)),
        *([("Build tools", check_builds(machine))] if builds else []),
    ):
        screen.line(screen.paint("bold", title))
        for check in checks:
            faults += check.state == FAULT
            screen.line(f"  {screen.paint(_COLOURS[check.state], f'{check.state:<5}')}  {check.text}")
            if check.hint:
                screen.line(f"         {check.hint}")
    summary = f"{plural(faults, 'problem')} found" if faults else "No problems found."
    if not builds:
        screen.line("'hipcache doctor --try' builds a small project with each build tool, and prints its command.")
    screen.line(screen.paint("red" if faults else "green", summary))
    return 1 if faults else 0


def check_compilers(named: list[str], machine: Machine) -> Iterator[Check]:
    """Each compiler that was named must work. Of those that happen to be installed, one is enough."""
    found = named or compilers(machine)
    if not found:
        hint = "install clang with lld and HIP (Debian: apt install hipcc), or name one with --compiler"
        yield Check(FAULT, "no clang++ or amdclang++ on PATH or in /opt/rocm*", hint)
    groups = [list(_check_compiler(compiler, machine)) for compiler in found]
    one_works = any(all(check.state != FAULT for check in checks) for checks in groups)
    for checks in groups:
        for check in checks:
            spare = check.state == FAULT and one_works and not named
            hint = f"nothing if you use another of these; else {check.hint}"
            yield replace(check, state=NOTE, hint=hint) if spare else check


def _check_compiler(name: str, machine: Machine) -> Iterator[Check]:
    path = resolve(name, machine.environ)
    if not path:
        yield Check(FAULT, f"compiler '{name}' was not found", "install it, or correct the name or PATH")
        return
    toolchain = examine(path, machine)
    if not toolchain.version:
        yield Check(FAULT, f"'{path}' is not clang", "hipcache caches compiles of clang++ and amdclang++ only")
        return
    yield Check(OK, f"'{path}' is clang {toolchain.version}")
    if toolchain.flags is None:
        yield Check(
            FAULT,
            f"it cannot compile HIP: {toolchain.error}",
            "install HIP (Debian: apt install hipcc), or set ROCM_PATH",
        )
        return
    yield from _check_toolchain(toolchain)


def _check_toolchain(toolchain: Toolchain) -> Iterator[Check]:
    if toolchain.flags:
        flags = " ".join(toolchain.flags)
        hint = f'pass them to every compile; in CMake: -DCMAKE_HIP_FLAGS="{flags}"'
        yield Check(NOTE, f"it finds HIP only with these flags: {flags}", hint)
    if toolchain.hip_version:
        yield Check(OK, f"headers of HIP {toolchain.hip_version}")
    else:
        yield Check(
            FAULT,
            f"it cannot read <hip/hip_runtime.h>: {toolchain.header_error}",
            "install HIP's headers (Debian: apt install libamdhip64-dev), or use a clang that matches them",
        )
    if toolchain.arches:
        listed = " ".join(toolchain.arches)
        yield Check(OK, f"device libraries in '{toolchain.device_libraries}' cover:", listed)
    else:
        yield Check(NOTE, "its plan (-###) names no device libraries per architecture")
    if toolchain.missing_tools:
        names = ", ".join(f"'{tool}'" for tool in toolchain.missing_tools)
        major = toolchain.version.partition(".")[0]
        hint = f"install them for this clang (Debian: apt install lld-{major} clang-tools-{major})"
        yield Check(FAULT, f"it needs {names}, which was not found", hint)
    else:
        yield Check(OK, "it has its linker and bundler")
    if toolchain.not_cached:
        hint = "its compiles work, but pass through; with clang 20 to 23: --no-offload-new-driver"
        yield Check(FAULT, f"hipcache does not cache its compiles: {toolchain.not_cached}", hint)
    else:
        yield Check(OK, "hipcache understands its plan (-###) of a HIP compile")


def check_settings(console: Console) -> Iterator[Check]:
    try:
        settings = config.load(console.environ, strict=True)
    except ConfigError as error:
        yield Check(FAULT, error.message, error.hint)
        return
    for file, _ in settings.files:
        yield Check(OK, f"config file '{file}'")
    if not settings.files:
        yield Check(OK, "no config file")
    if settings.disable:
        yield Check(NOTE, f"hipcache is switched off ({settings.origins['disable']})", "unset HIPCACHE_DISABLE")
    if settings.recache:
        yield Check(
            NOTE, f"no hits are served: every compile runs ({settings.origins['recache']})", "unset HIPCACHE_RECACHE"
        )
    yield from _check_store(settings)
    yield from check_found_by_cmake(console.environ)
    faults = [Check(FAULT, condition.message, condition.hint) for condition in conditions.of_native()]
    yield from faults or [Check(OK, "the native launcher serves hits")]
    if not (compression.library() and native.reads_packs()):
        told = "entries are kept as separate files: libzstd.so.1 is missing, or was when hipcache was built"
        yield Check(NOTE, told, "install zstd (Debian: libzstd-dev), then hipcache again")
    if not settings.resident:
        yield Check(NOTE, f"each hit checks every system file ({settings.origins['resident']})")
    if not faults:
        yield _check_observation()
    for checks in features.added("checks"):
        yield from checks(settings)


def _check_observation() -> Check:
    program = [sys.executable, "-I", "-S", "-c", ""]
    traced = SubprocessRunner().trace(program, cwd=Path("/"), env={})
    if traced.observed is not None:
        return Check(OK, "hipcache can observe which files compilers look for")
    hint = "it derives them from the sources instead, and does not store compiles where it cannot"
    return Check(NOTE, f"hipcache cannot observe which files compilers look for: {traced.why}", hint)


def _check_store(settings: config.Config) -> Iterator[Check]:
    try:
        size = open_store(settings, read_only=True).size(beside=True)
    except (StoreError, OSError) as error:
        what, hint = (error.message, error.hint) if isinstance(error, StoreError) else (str(error), "")
        yield Check(FAULT, f"store '{settings.dir}' cannot be read: {what}", hint or "choose another HIPCACHE_DIR")
        return
    limit = f" of {human_size(size.max_bytes)}" if size.max_bytes else ""
    text = f"store '{settings.dir}' holds {human_size(size.bytes)}{limit}"
    if settings.readonly:
        yield Check(NOTE, f"{text}; it is read-only ({settings.origins['readonly']})")
        return
    problems = list(conditions.of_store(settings)) or list(conditions.of_new_store(settings))
    if not problems:
        yield Check(OK, text)
    yield from (Check(FAULT, condition.message, condition.hint) for condition in problems)
    foreign = conditions.owned_by_others(settings)
    if foreign and not problems:
        yield Check(NOTE, foreign, "change the owner with chown, or use your own store (HIPCACHE_DIR)")


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
    return " ".join(sorted(archs, key=arch_order))


def check_found_by_cmake(environ: Mapping[str, str]) -> Iterator[Check]:
    """find_package() looks beside the directories on PATH, not where a link in one leads (pipx and uv make those)."""
    program = resolve("hipcache", environ)
    prefix = Path(program).absolute().parent.parent
    known = ("CMAKE_PREFIX_PATH", "HipCache_ROOT", "HipCache_DIR")
    if not program or not os.path.islink(program) or any(environ.get(name) for name in known):
        return
    with suppress(HipcacheError):
        installed = support_files("cmake")
        if not (prefix / PLACES["cmake"][0]).is_dir():
            hint = f"export HipCache_ROOT={installed}, or CMake: -DHipCache_DIR={installed}"
            yield Check(
                NOTE,
                f"'{program}' is a symbolic link: find_package(HipCache) does not find the package behind it",
                hint,
            )


_SOURCE = """\
#include <hip/hip_runtime.h>
__global__ void kernel(int* p) { p[0] = p[1]; }
void run(int* p) { kernel<<<1, 1>>>(p); }
"""
_LISTS = """\
cmake_minimum_required(VERSION 3.21)
project(kernels LANGUAGES HIP)
add_library(kernels STATIC kernel.hip)
"""
_SCONSTRUCT = """\
env = Environment(tools=["default", "hipcache"], toolpath=["{scons}"], HIP_ARCHS=["{arch}"])
env.StaticLibrary("kernels", ["kernel.hip"])
"""
_MESON = """\
project('kernels', 'cpp')
objects = subproject('hipcache').get_variable('hip_object').process('kernel.hip')
static_library('kernels', objects, link_language: 'cpp')
"""
_MAKEFILE = """\
kernel.o: kernel.hip
	$(CXX) --offload-arch={arch} -c -o $@ $<
"""
# Where nvcc is, too, HIP's scripts choose it.
_FOR_AMD = "HIP_PLATFORM=amd"
_TOP = "CMAKE_PROJECT_TOP_LEVEL_INCLUDES"


@dataclass(frozen=True)
class TrialBuild:
    """A build tool, the file of its project, and the shell line to try. `needs`: of such a file."""

    program: str
    file: str
    text: str
    line: str
    needs: str = ""


def builds(arch: str) -> tuple[TrialBuild, ...]:
    tool = _SCONSTRUCT.format(scons=support_files("scons"), arch=arch)
    module = shlex.quote(f"{support_files('cmake')}/HipCache.cmake")
    cmake = f"cmake -S . -B build -D{_TOP}={module} -DCMAKE_HIP_ARCHITECTURES={arch}"
    meson = f"ln -s {shlex.quote(str(support_files('meson')))} subprojects/hipcache"
    meson = f"mkdir -p subprojects && {meson} && meson setup build -Dhipcache:hip_architectures={arch}"
    return (
        TrialBuild("cmake", "CMakeLists.txt", _LISTS, f"{cmake} && cmake --build build"),
        TrialBuild("meson", "meson.build", _MESON, f"{meson} && meson compile -C build", _MESON.splitlines()[1]),
        TrialBuild("scons", "SConstruct", tool, "scons", tool.splitlines()[0]),
        TrialBuild("make", "Makefile", _MAKEFILE.format(arch=arch), 'make CXX="hipcache hipcc"'),
    )


def check_builds(machine: Machine, arch: str = PROBED[1]) -> Iterator[Check]:
    """Each build tool that is installed, with its command."""
    for build in builds(arch):
        if not resolve(build.program, machine.environ):
            yield Check(NOTE, f"{build.program} is not installed", f"Debian: apt-get install {build.program}")
            continue
        said = ""
        for line in (build.line, f"export {_FOR_AMD}; {build.line}"):
            said = _try(build, line, machine)
            if not said:
                needs = f", if its {build.file} has: {build.needs}" if build.needs else ""
                yield Check(OK, f"{build.program} builds HIP through hipcache{needs}", line)
                break
        else:
            yield Check(FAULT, f"{build.program} builds no HIP through hipcache: {said}", f"tried: {build.line}")


def _try(build: TrialBuild, line: str, machine: Machine) -> str:
    """Its last word if it failed or cached nothing; empty if it did."""
    with TemporaryDirectory(prefix="hipcache-", ignore_cleanup_errors=True) as place:
        Path(place, "kernel.hip").write_text(_SOURCE)
        Path(place, build.file).write_text(build.text)
        log = Path(place, "log")
        environ: Mapping[str, str] = {
            **machine.environ,
            "HIPCACHE_DIR": f"{place}/store",
            "HIPCACHE_STATS_LOG": str(log),
        }
        done = machine.runner.run(["sh", "-c", line], env=environ, cwd=Path(place))
        if done.status:
            text = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
            return next((line for line in text.splitlines() if "error" in line.lower()), text.rpartition("\n")[2])
        return "" if log.exists() and stats_log.total(log).cacheable else "no compile came to hipcache"
