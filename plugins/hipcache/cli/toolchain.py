"""The HIP toolchains of this machine: which compilers there are, and what one of them can do.

The driver's own plan (`-###`) for an empty HIP source is asked; nothing is guessed but where to look.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

import hipcache
from hipcache.app import trial
from hipcache.base.errors import HipcacheError, PassThrough
from hipcache.base.patterns import pattern
from hipcache.base.values import dataclass, field, replace
from hipcache.clang.jobs import split
from hipcache.cli.screen import arch_order
from hipcache.processes.runner import Completed, Runner

_NAME = pattern(r"(amd)?clang\+\+(-[0-9.]+)?$")
_VERSION = pattern(r"clang version (\S+)")
_INSTALLED = pattern(r"^InstalledDir: (.+)$", re.MULTILINE)
_ISA = pattern(r"oclc_isa_version_([0-9a-f]+)\.bc$")
_OF_ANOTHER = pattern(r"/llvm-[0-9]+/lib/clang/")
# Asked for in this order: device libraries of any age have one of them.
PROBED = ("gfx906", "gfx90a", "gfx1030", "gfx1100")


Trial = Callable[[Sequence[str], Mapping[str, str]], str]
OK, NOTE, FAULT = "ok", "note", "fault"


@dataclass(frozen=True)
class Check:
    """One line of the doctor's: what was found, and for a fault what to do about it."""

    state: str
    text: str
    hint: str = ""


@dataclass(frozen=True)
class Toolchain:
    """The answers of one compiler. `version` is empty if it is no clang; `flags` are what it needs to find HIP here
    (None: nothing that was tried works); `error` is its message without them."""

    compiler: str
    version: str = ""
    flags: tuple[str, ...] | None = None
    error: str = ""
    hip_version: str = ""
    header_error: str = ""
    device_libraries: Path | None = None
    arches: tuple[str, ...] = ()
    missing_tools: tuple[str, ...] = ()
    not_cached: str = ""


@dataclass(frozen=True)
class Machine:
    """The place to look at. `root` is "/" except in tests; `build`: a build directory, perhaps of CMake's;
    `why_passed_through`: of the compiler's words (see `trial`)."""

    runner: Runner
    environ: Mapping[str, str] = field(default_factory=dict)
    root: Path = Path("/")
    build: Path = Path(".")
    why_passed_through: Trial = trial.why_passed_through


def compilers(machine: Machine) -> list[str]:
    """clang++, clang++-NN and amdclang++ on PATH, then those of /opt/rocm*; each program once."""
    directories = [Path(d) for d in machine.environ.get("PATH", os.defpath).split(os.pathsep) if d.startswith("/")]
    for rocm in rocm_roots(machine):
        directories += [rocm / "bin", rocm / "llvm" / "bin"]
    found: dict[str, str] = {}
    for directory in directories:
        for file in _listed(directory):
            if _NAME.fullmatch(file.name) and os.access(file, os.X_OK):
                found.setdefault(os.path.realpath(file), str(file))
    return list(found.values())


def rocm_roots(machine: Machine) -> list[Path]:
    """ROCm's own installations. `/opt/rocm` is by custom a link to one of the others."""
    found: dict[str, Path] = {}
    for path in _listed(machine.root / "opt"):
        if path.name.startswith("rocm") and path.is_dir():
            found.setdefault(os.path.realpath(path), path)
    return list(found.values())


def resolve(compiler: str, environ: Mapping[str, str]) -> str:
    """The path of a compiler, found by its name as a shell would; empty if there is none."""
    return shutil.which(compiler, path=environ.get("PATH", os.defpath)) or ""


def examine(compiler: str, machine: Machine) -> Toolchain:
    version = _VERSION.search(_run(machine, [compiler, "--version"]).stdout.decode("utf-8", "replace"))
    if not version:
        return Toolchain(compiler)
    flags, probe, text = _find_hip(compiler, machine)
    if flags is None:
        return Toolchain(compiler, version[1], error=text)
    return _read_plan(Toolchain(compiler, version[1], flags), probe, text, machine)


def flags_for_hip(compiler: str, machine: Machine) -> tuple[str, ...]:
    """With these the compiler finds HIP; none if it does without, or with nothing that is known."""
    return (_find_hip(compiler, machine)[0] or ()) if any(_candidates(machine)) else ()


def _find_hip(compiler: str, machine: Machine) -> tuple[tuple[str, ...] | None, list[str], str]:
    """(flags that it needs, the options that were tried, the driver's plan); or None, and its error without flags."""
    error = ""
    for flags in ((), *_candidates(machine)):
        for arch in PROBED:
            probe = [*flags, "-x", "hip", f"--offload-arch={arch}"]
            answer = _run(machine, [compiler, *probe, "-c", os.devnull, "-o", os.devnull, "-###"])
            text = answer.stderr.decode("utf-8", "replace")
            if answer.status == 0 and "error:" not in text:
                if _OF_ANOTHER.search("".join(flags)) and not _compiles(compiler, probe, machine):
                    break
                return flags, probe, text
            error = error or _first_error(text)
            if f"for {arch}" not in text:
                break  # not for want of this very arch
    return None, [], error


def _compiles(compiler: str, probe: Sequence[str], machine: Machine) -> bool:
    """Does it compile what includes HIP's header? An older clang cannot read the bitcode that another one made."""
    with TemporaryDirectory(prefix="hipcache-", ignore_cleanup_errors=True) as directory:
        words = ["-include", "hip/hip_runtime.h", "-c", os.devnull, "-o", os.path.join(directory, "trial.o")]
        return _run(machine, [compiler, *probe, *words]).status == 0


def clang_of_hipcc(machine: Machine) -> str:
    """The clang++ that hipcc on PATH runs, for which HIP was built; empty if that is not known."""
    hipcc = resolve("hipcc", machine.environ)
    # Beside an nvcc it would speak for that.
    answer = _run_with(machine, [hipcc, "--version"], {**machine.environ, "HIP_PLATFORM": "amd"}) if hipcc else None
    text = answer.stdout.decode("utf-8", "replace") if answer else ""
    version, directory = _VERSION.search(text), _INSTALLED.search(text)
    if not version or not directory:
        return ""
    names = (f"clang++-{version[1].partition('.')[0]}", "clang++")
    return next((path for name in names if (path := resolve(f"{directory[1]}/{name}", machine.environ))), "")


def _candidates(machine: Machine) -> Iterator[tuple[str, ...]]:
    """Flags that show a compiler where HIP is: ROCm's installations, then a distribution's directories."""
    for rocm in rocm_roots(machine):
        yield (f"--rocm-path={rocm}",)
    usr = machine.root / "usr"
    # Debian's lie with the clang that HIP was built by, where another clang does not look.
    debian = [*_listed(usr / "lib", "*/amdgcn/bitcode"), *_listed(usr / "lib", "llvm-*/lib/clang/*/amdgcn/bitcode")]
    for bitcode in (usr / "lib64/amdgcn/bitcode", usr / "amdgcn/bitcode", *debian):
        if bitcode.is_dir():
            yield (f"--rocm-path={usr}", f"--rocm-device-lib-path={bitcode}")


def _read_plan(toolchain: Toolchain, probe: Sequence[str], text: str, machine: Machine) -> Toolchain:
    jobs: list[tuple[str, ...]] = []
    not_cached = ""
    try:
        jobs, _ = split(text)
    except PassThrough as reason:
        not_cached = str(reason)
    tools = dict.fromkeys(job[0] for job in jobs)
    bitcode = [Path(word) for job in jobs for word in job if _ISA.search(word)]
    libraries = bitcode[0].parent if bitcode else None
    missing = tuple(tool for tool in tools if not resolve(tool, machine.environ))
    if not (not_cached or missing):
        not_cached = machine.why_passed_through([toolchain.compiler, *probe], machine.environ)
    hip_version, header_error = _headers(toolchain.compiler, probe, machine)
    return replace(
        toolchain,
        hip_version=hip_version,
        header_error=header_error,
        device_libraries=libraries,
        arches=covered(libraries) if libraries else (),
        # The driver prints the bare name of a program that it did not find beside itself: PATH is then its last hope.
        missing_tools=missing,
        not_cached=not_cached,
    )


def covered(libraries: Path) -> tuple[str, ...]:
    """The arches that device libraries cover: each has a file oclc_isa_version_90a.bc."""
    numbers = [match[1] for file in _listed(libraries) if (match := _ISA.search(file.name))]
    return tuple(sorted((f"gfx{number}" for number in numbers), key=arch_order))


def _headers(compiler: str, probe: Sequence[str], machine: Machine) -> tuple[str, str]:
    """HIP's version as its headers have it, and the error of a compiler that cannot read them."""
    words = [*probe, "--cuda-host-only", "-E", "-dM", "-include", "hip/hip_runtime.h", os.devnull]
    answer = _run(machine, [compiler, *words])
    if answer.status != 0:
        return "", _first_error(answer.stderr.decode("utf-8", "replace"))
    macros = dict(re.findall(r"#define HIP_VERSION_(\w+) (\d+)", answer.stdout.decode("utf-8", "replace")))
    return ".".join(macros.get(part, "?") for part in ("MAJOR", "MINOR", "PATCH")), ""


def _run(machine: Machine, argv: Sequence[str]) -> Completed:
    """The driver leaves empty directories in TMPDIR, also for `-###`: it gets one of ours, if that can be made."""
    with ExitStack() as stack:
        env = dict(machine.environ)
        with suppress(OSError):
            env["TMPDIR"] = stack.enter_context(TemporaryDirectory(prefix="hipcache-", ignore_cleanup_errors=True))
        return _run_with(machine, argv, env)


def _run_with(machine: Machine, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
    try:
        return machine.runner.run(argv, env=env)
    except OSError as error:
        return Completed(127, b"", f"error: {error.strerror}".encode())


def _first_error(text: str) -> str:
    """The text behind "error: " in the first such line, else the last line."""
    for line in text.splitlines():
        _, found, message = line.partition("error: ")
        if found:
            return message
    return (text.strip().splitlines() or ["it says nothing"])[-1]


def _listed(directory: Path, pattern: str = "*") -> list[Path]:
    try:
        return sorted(directory.glob(pattern))
    except OSError:
        return []


# For each build tool: its directory below an installation's prefix, and below a source checkout.
PLACES = {
    "cmake": ("share/cmake/HipCache", "cmake"),
    "meson": ("share/hipcache/meson", "meson"),
    "scons": ("share/hipcache/scons", "plugins/hipcache_scons"),
}


def support_files(tool: str, package: Path | None = None, prefix: Path | None = None) -> Path:
    """The directory for `tool` of the installation, or checkout, that this very package belongs to."""
    imported = package or Path(hipcache.__file__).parent
    package, prefix = imported.resolve(), prefix or Path(sys.prefix)
    installed, in_checkout = PLACES[tool]
    checkout = package.parent.parent
    candidates = [checkout / in_checkout] if (checkout / "pyproject.toml").is_file() else []
    # `pip install --target` puts them beside the package, and records that they are elsewhere.
    candidates += [base / installed for base in (package.parent, *_recorded_prefixes(package, installed))]
    if imported.is_relative_to(prefix) or package.is_relative_to(prefix.resolve()):
        candidates.append(prefix / installed)
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    places = " or ".join(f"'{candidate}'" for candidate in candidates)
    raise HipcacheError(
        f"there are no files for '{tool}' in {places}",
        f"install a hipcache package that has them; this is {hipcache.__version__} in '{package}'",
    )


def _recorded_prefixes(package: Path, installed: str) -> Iterator[Path]:
    """The directories where the installer recorded that it put files below `installed`. A distribution of the same name
    that holds another copy of this package (beside an editable install) is not asked."""
    try:
        distribution = metadata.distribution("hipcache")
    except metadata.PackageNotFoundError:
        return
    if Path(str(distribution.locate_file("hipcache"))).resolve() != package:
        return
    for file in distribution.files or ():
        path = Path(str(distribution.locate_file(file))).resolve()
        if f"/{installed}/" in path.as_posix():
            yield Path(path.as_posix().partition(f"/{installed}/")[0])
            return
