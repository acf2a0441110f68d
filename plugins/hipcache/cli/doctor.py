"""`hipcache doctor`: does everything that a cached HIP compile needs work here, and if not, what to do."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from hipcache import config, features, native
from hipcache.app import trial
from hipcache.cli import Session, trial_builds
from hipcache.cli.screen import Screen, human_size, plural
from hipcache.cli.toolchain import FAULT, NOTE, OK, Check, Machine, Toolchain, Trial, compilers, examine, resolve
from hipcache.cli.ways import check_found_by_cmake, check_platform
from hipcache.disk import compression
from hipcache.errors import ConfigError, HipcacheError, StoreError
from hipcache.processes.runner import SubprocessRunner
from hipcache.report import conditions
from hipcache.store.opening import open_store
from hipcache.values import replace

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


def run(options: argparse.Namespace, session: Session) -> int:
    if options.build and not (options.build / "CMakeCache.txt").is_file():
        hint = "name a build directory that CMake has configured"
        raise HipcacheError(f"there is no 'CMakeCache.txt' in '{options.build}'", hint)
    if options.brief:
        try:
            found = conditions.of_settings(config.load(session.environ))
        except ConfigError as error:
            found = (conditions.of_wrong_settings(error),)
        found += tuple(filter(None, (trial.condition(name, session.environ) for name in options.compiler)))
        for condition in found:
            print(f"{condition.describe()}; {condition.hint}", file=session.out)
        return 1 if found else 0
    return examine_all(options.compiler, session, Path("/"), options.build or Path(), builds=options.builds)


def examine_all(
    named: list[str],
    session: Session,
    root: Path,
    build: Path,
    tried: Trial = trial.why_passed_through,
    *,
    builds: bool = False,
) -> int:
    machine = Machine(session.runner, session.environ, root, build, tried)
    screen = Screen(session.out, session.environ)
    faults = 0
    for title, checks in (
        ("Compilers", check_compilers(named, machine)),
        ("Settings", check_settings(session)),
        ("Platform", check_platform(machine)),
        *([("Build tools", trial_builds.check(machine))] if builds else []),
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
            yield replace(check, state=NOTE) if spare else check


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


def check_settings(session: Session) -> Iterator[Check]:
    try:
        settings = config.load(session.environ, strict=True)
    except ConfigError as error:
        yield Check(FAULT, error.message, error.hint)
        return
    for file in settings.files:
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
    yield from check_found_by_cmake(session.environ)
    faults = [Check(FAULT, condition.message, condition.hint) for condition in conditions.of_native()]
    yield from faults or [Check(OK, "the native launcher serves hits")]
    if not (compression.library() and native.reads_packs()):
        told = "entries are kept as separate files: libzstd.so.1 is missing, or was when hipcache was built"
        yield Check(NOTE, told, "install zstd (Debian: libzstd-dev), then hipcache again")
    if not settings.resident:
        yield Check(NOTE, f"each hit checks every system file ({settings.origins['resident']})")
    if not faults:
        yield _check_observation()
    for checks in features.modules("CHECKS"):
        yield from checks.check(settings)


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
