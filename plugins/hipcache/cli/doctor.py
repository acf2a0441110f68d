"""`hipcache doctor`: does everything that a cached HIP compile needs work here, and if not, what to do."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from hipcache import config
from hipcache.cli import Session, arches
from hipcache.cli.screen import Screen, human_size, plural
from hipcache.cli.toolchain import Machine, Toolchain, compilers, examine, resolve
from hipcache.direct import native
from hipcache.errors import ConfigError, StoreError
from hipcache.store.local import LocalStore
from hipcache.values import dataclass, replace

SUMMARY = "check compiler, HIP, device libraries, store and settings"

OK, NOTE, FAULT = "ok", "note", "fault"
_COLOURS = {OK: "green", NOTE: "yellow", FAULT: "red"}

# Each says for which architectures to compile: to CMake's HIP support, to projects that compile HIP as C++, to
# composable_kernel, to PyTorch, to hipcc.
_ARCHITECTURES = (
    *("CMAKE_HIP_ARCHITECTURES", "GPU_TARGETS", "AMDGPU_TARGETS", "GPU_ARCHS", "PYTORCH_ROCM_ARCH"),
    "HCC_AMDGPU_TARGET",
)
# Read by compilers, hipcc and CMake's HIP support: a stray one explains much.
_VARIABLES = (
    *("HSA_OVERRIDE_GFX_VERSION", "HIP_PATH", "ROCM_PATH", "HIP_DEVICE_LIB_PATH", "HIP_CLANG_PATH"),
    *("HIP_CLANG_LAUNCHER", "HIPCXX", "HIPFLAGS", "PYTORCH_NVCC", "CMAKE_HIP_COMPILER_LAUNCHER"),
    *("HIPCC_COMPILE_FLAGS_APPEND", "CCC_OVERRIDE_OPTIONS", "CPATH", "CPLUS_INCLUDE_PATH"),
)


@dataclass(frozen=True)
class Check:
    """One line: what was found, and for a fault what to do about it."""

    state: str
    text: str
    hint: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--compiler", action="append", default=[], metavar="CLANG++", help="check this one (may be repeated)"
    )


def run(options: argparse.Namespace, session: Session) -> int:
    return examine_all(options.compiler, session, Path("/"))


def examine_all(named: list[str], session: Session, root: Path) -> int:
    machine = Machine(session.runner, session.environ, root)
    screen = Screen(session.out, session.environ)
    faults = 0
    for title, checks in (
        ("Compilers", check_compilers(named, machine)),
        ("Settings", check_settings(session)),
        ("Platform", check_platform(machine)),
    ):
        screen.line(screen.paint("bold", title))
        for check in checks:
            faults += check.state == FAULT
            screen.line(f"  {screen.paint(_COLOURS[check.state], f'{check.state:<5}')}  {check.text}")
            if check.hint:
                screen.line(f"         {check.hint}")
    summary = f"{plural(faults, 'fault')} found" if faults else "All is well."
    screen.line(screen.paint("red" if faults else "green", summary))
    return 1 if faults else 0


def check_compilers(named: list[str], machine: Machine) -> Iterator[Check]:
    """Each compiler that was named must work. Of those that happen to be installed, one is enough."""
    found = named or compilers(machine)
    if not found:
        hint = "install clang with lld and HIP (Debian: apt install hipcc clang-15 lld-15), or name one with --compiler"
        yield Check(FAULT, "no clang++ or amdclang++ on PATH or in /opt/rocm*", hint)
    groups = [list(_check_compiler(compiler, machine)) for compiler in found]
    one_works = any(all(check.state != FAULT for check in checks) for checks in groups)
    for checks in groups:
        for check in checks:
            spare = check.state == FAULT and one_works and not named
            yield replace(check, state=NOTE) if spare else check


def _check_compiler(name: str, machine: Machine) -> Iterator[Check]:
    path = resolve(name, machine.environ)
    if not path:
        yield Check(FAULT, f"compiler '{name}' is not there", "install it, or correct the name or PATH")
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
            "install HIP (Debian: apt install libamdhip64-dev rocm-device-libs), or set ROCM_PATH",
        )
        return
    yield from _check_toolchain(toolchain)


def _check_toolchain(toolchain: Toolchain) -> Iterator[Check]:
    if toolchain.flags:
        flags = " ".join(toolchain.flags)
        hint = f'pass them to each compile; in CMake: -DCMAKE_HIP_FLAGS="{flags}"'
        yield Check(NOTE, f"it finds HIP only with the flags {flags}", hint)
    if toolchain.hip_version:
        yield Check(OK, f"headers of HIP {toolchain.hip_version}")
    else:
        yield Check(
            FAULT,
            f"it cannot read <hip/hip_runtime.h>: {toolchain.header_error}",
            "install HIP's headers (Debian: apt install libamdhip64-dev), or a clang that fits them",
        )
    if toolchain.arches:
        listed = " ".join(toolchain.arches)
        yield Check(OK, f"device libraries in '{toolchain.device_libraries}' cover", listed)
    else:
        yield Check(NOTE, "its plan names no device libraries by architecture")
    if toolchain.missing_tools:
        names = ", ".join(f"'{tool}'" for tool in toolchain.missing_tools)
        major = toolchain.version.partition(".")[0]
        hint = f"install them for this clang (Debian: apt install lld-{major} clang-tools-{major})"
        yield Check(FAULT, f"it needs {names}, which is not there", hint)
    else:
        yield Check(OK, "its linker and bundler are there")
    if toolchain.not_cached:
        hint = "its compiles work, but are passed through; older clang: --no-offload-new-driver"
        yield Check(NOTE, f"hipcache does not cache its compiles: {toolchain.not_cached}", hint)
    else:
        yield Check(OK, "hipcache understands its plan of a HIP compile")


def check_settings(session: Session) -> Iterator[Check]:
    try:
        settings = config.load(session.environ, strict=True)
    except ConfigError as error:
        yield Check(FAULT, error.message, error.hint)
        return
    yield Check(OK, f"config file '{settings.config_file}'" if settings.config_file else "no config file")
    if settings.disable:
        yield Check(NOTE, f"hipcache is switched off ({settings.origins['disable']})", "unset HIPCACHE_DISABLE")
    if settings.recache:
        yield Check(NOTE, f"hits are not taken ({settings.origins['recache']})", "unset HIPCACHE_RECACHE")
    yield _check_store(settings)
    if native.is_outdated():
        yield Check(FAULT, native.OUTDATED, "install hipcache again (in a checkout: pip install -e .)")
    elif native.load() is None:
        hint = "install a C compiler (Debian: apt install gcc libc6-dev), then hipcache again"
        yield Check(NOTE, "there is no native launcher here: each hit starts Python, 0.1 s", hint)
    else:
        yield Check(OK, "hits are served by the native launcher")


def _check_store(settings: config.Config) -> Check:
    try:
        size = LocalStore(settings.dir, max_bytes=settings.max_size, read_only=True).size()
    except (StoreError, OSError) as error:
        return Check(FAULT, f"store '{settings.dir}' cannot be read: {error}", "choose another HIPCACHE_DIR")
    bound = f" of {human_size(size.max_bytes)}" if size.max_bytes else ""
    text = f"store '{settings.dir}' holds {human_size(size.bytes)}{bound}"
    if settings.readonly:
        return Check(NOTE, f"{text}; nothing is written to it ({settings.origins['readonly']})")
    problem = _not_writable(settings.dir)
    if problem:
        return Check(
            FAULT, f"{text}, but cannot be written: {problem}", "correct its owner, or choose another HIPCACHE_DIR"
        )
    return Check(OK, text)


def _not_writable(directory: Path) -> str:
    """Why nothing can be created there; empty where it can. A directory that is yet to be made stays unmade."""
    while not os.path.lexists(directory):
        directory = directory.parent
    try:
        with tempfile.TemporaryFile(dir=directory):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def check_platform(machine: Machine) -> Iterator[Check]:
    """hipconfig decides for NVIDIA where it sees nvcc; CMake and hipcc then do not compile for AMD at all."""
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
        yield Check(NOTE, f"there is '{nvcc}', which HIP may take", "export HIP_PLATFORM=amd")
    else:
        yield Check(OK, "no nvcc that HIP could take for its compiler")
    yield from check_architectures(machine.environ)
    for variable in _VARIABLES:
        if machine.environ.get(variable):
            yield Check(NOTE, f"{variable} is set: {machine.environ[variable]}")


def check_architectures(environ: Mapping[str, str]) -> Iterator[Check]:
    """The variables that name architectures, and which of them do not say the same."""
    named = {name: environ[name] for name in _ARCHITECTURES if environ.get(name)}
    for name, value in named.items():
        yield Check(NOTE, f"{name} is set: {value}")
    lists = {name: frozenset(re.split(r"[;,\s]+", value.strip("; ,\t"))) for name, value in named.items()}
    if len(set(lists.values())) > 1:
        every = frozenset().union(*lists.values())
        lacking = [
            f"{name} lacks {' '.join(sorted(every - archs, key=arches.order))}"
            for name, archs in lists.items()
            if every - archs
        ]
        hint = "each is for another build tool; where several are at work, they compile for other GPUs"
        yield Check(NOTE, f"they disagree: {', '.join(lacking)}", hint)
