"""Builds the native launcher and the native library (`plugins/hipcache/native`) into the wheel.

`hipcache` is the launcher, and `hipcache-engine` beside it is the Python entry point that it starts where it has no
answer of its own. Without a C compiler the build fails.

HIPCACHE_BUILD=package is for who makes a package of it: the launcher is linked dynamically, by the builder's CC with
its CPPFLAGS, CFLAGS and LDFLAGS (hardening among them); and the package `blake3` is no dependency, since the native
library has its own. Else the launcher is static, which starts faster.

HIPCACHE_BUILD=musl makes a wheel for systems whose C library is musl, on any other one by `musl-gcc` (Debian:
musl-tools). The launcher is static in each wheel. The library is loaded into Python, so it needs the C library of that
Python: one wheel cannot be for both. It names that library as Alpine does (`libc.musl-x86_64.so.1`: musl's loader takes
each name that begins with `libc.` for itself), by which auditwheel knows it.
"""

from __future__ import annotations

import binascii
import contextlib
import os
import platform
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

SOURCES = Path("plugins/hipcache/native")
# Folders of each; one is in both.
OF_LAUNCHER, OF_LIBRARY = ("direct", "launcher"), ("direct", "lexer", "library", "observer")
LIBRARY = "libhipcache.so"
HINT = "Debian: apt install gcc libc6-dev; or set CC"


def is_package() -> bool:
    """Is this a distribution's build? Raises ValueError for a word that is not known."""
    told = os.environ.get("HIPCACHE_BUILD", "")
    if told not in ("", "package", "static", "musl"):
        raise ValueError(f"HIPCACHE_BUILD is '{told}'; it may be 'package', 'static' or 'musl'")
    return told == "package"


def _with_zstd(compiler: list[str], told: list[str]) -> list[tuple[list[str], list[str]]]:
    """The ways to link zstd, the best first; the last one goes without."""
    if "-static" not in told:
        return [(compiler, [*told, "-DZSTD_LOADED", "-ldl"])]
    asked = ["cc" if compiler == ["musl-gcc"] else compiler[0], *compiler[1:], "-print-file-name=libzstd.a"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        found = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
        if os.path.isabs(found):
            return [(compiler, [*told, "-DZSTD_LINKED", found]), (compiler, told)]
    return [(compiler, told)]


def is_for_musl() -> bool:
    return os.environ.get("HIPCACHE_BUILD") == "musl"


class DependenciesHook(MetadataHookInterface):
    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        metadata["dependencies"] = ["pyyaml>=6", *([] if is_package() else ["blake3>=0.4"])]


class LauncherHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """`version`: "standard", or "editable", whose package is the checkout itself."""
        built = Path(self.directory) / "native"
        built.mkdir(parents=True, exist_ok=True)
        launcher, library = built / "hipcache", built / LIBRARY
        told_cc = os.environ.get("CC", "").strip()  # an empty one is none, as for make's `CC=`
        compiler = shlex.split(told_cc or ("musl-gcc" if is_for_musl() else "cc"))
        # glibc asks the processor some 80 questions as a program starts, and each of them is a microsecond in a virtual
        # machine. With musl, a hit takes two thirds of the time.
        small = [] if told_cc else [(["musl-gcc"], ["-static"])]
        ways = [(compiler, [])] if is_package() else [*small, (compiler, ["-static"]), (compiler, [])]
        # A static launcher has zstd linked in, if the builder's system has that (Debian: libzstd-dev).
        ways = [way for compiler, told in ways for way in _with_zstd(compiler, told)]
        try:
            told = self._compile(launcher, OF_LAUNCHER, ways[:2] if is_for_musl() else ways)
            has_zstd = any(word.startswith("-DZSTD") for word in told)
            shared = ["-shared", "-fPIC", "-pthread", "-DZSTD_LOADED", f"-DREADS_PACKS={has_zstd:d}", "-ldl"]
            shared += [f"-Wl,--version-script={SOURCES / 'library/library.map'}"]
            shared += self._musl(compiler, built) if is_for_musl() else []
            self._compile(library, OF_LIBRARY, [(compiler, shared)])
        except (OSError, subprocess.CalledProcessError) as error:
            shutil.rmtree(built)
            sys.stderr.write(getattr(error, "stderr", ""))
            why = error.strerror if isinstance(error, OSError) else f"exit status {error.returncode}"
            sys.exit(f"hipcache needs a C compiler, and '{compiler[0]}' fails: {why} ({HINT})")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        if version == "editable":
            # The build directory may be on another file system; and programs that run have the old library open.
            beside = Path(self.root) / SOURCES / f"{LIBRARY}.new"
            shutil.copy(library, beside)
            beside.replace(beside.with_name(LIBRARY))
        else:
            build_data["force_include"][str(library)] = f"hipcache/native/{LIBRARY}"
        if "shared_scripts" in build_data:
            build_data["shared_scripts"][str(launcher)] = "hipcache"
        else:  # hatchling before 1.18
            scripts = f"{self.metadata.core.name.replace('-', '_')}-{self.metadata.version}.data/scripts"
            build_data["force_include"][str(launcher)] = f"{scripts}/hipcache"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Files beside the wheels would be uploaded with them."""
        shutil.rmtree(Path(self.directory) / "native", ignore_errors=True)

    def _subcommands(self) -> str:
        return " ".join((*runpy.run_path(str(Path(self.root) / "plugins/hipcache/__init__.py"))["VERBS"], "help"))

    def _musl(self, compiler: list[str], built: Path) -> list[str]:
        """Options with which a library names its C library as Alpine does. The one that is linked is empty."""
        named = ["-shared", "-nostdlib", f"-Wl,-soname,libc.musl-{platform.machine()}.so.1", "-x", "c", os.devnull]
        subprocess.run([*compiler, *named, "-o", str(built / "libc.so")], check=True, capture_output=True, text=True)
        return [f"-L{built}"]

    def _compile(self, output: Path, folders: tuple[str, ...], ways: list[tuple[list[str], list[str]]]) -> list[str]:
        """The sources of `folders`, in the first of `ways` (a compiler, and what it is told behind the builder's own
        flags) that works; gives the latter."""
        reasons = {"NOT_HIP": b"not_hip", "CXX_CACHE": b"cxx_cache"}
        # As report/statistics.py has them.
        counted = {name: b"passed_through\t" + reason + b"\t0" for name, reason in reasons.items()}
        counted |= {f"{name}_CHECK": line + b"\tconfigure check ..." for name, line in counted.items()}
        given = [*shlex.split(os.environ.get("CPPFLAGS", "")), *shlex.split(os.environ.get("CFLAGS", ""))]
        options = ["-std=gnu11", "-O2", "-Wall", "-Wextra", *(f"-I{SOURCES / name}" for name in folders), *given]
        options += [f'-DHIPCACHE_VERSION="{self.metadata.version}"']
        options += [f'-DSUBCOMMANDS="{self._subcommands()}"']
        options += [f'-D{name}_CRC="{binascii.crc32(line):08x}"' for name, line in counted.items()]
        linked = shlex.split(os.environ.get("LDFLAGS", ""))
        root = Path(self.root)
        sources = [path.relative_to(root) for name in folders for path in sorted((root / SOURCES / name).glob("*.c"))]
        for number, (compiler, told) in enumerate(ways):
            if "-shared" in told:
                linked = [flag for flag in linked if flag not in ("-pie", "-static", "-static-pie")]
            try:
                # The builder's CC may be one of C++. (g++ heeds `-x c` for one file.)
                named = [word for path in sources for word in ("-x", "c", str(path))]
                libraries = [word for word in told if word.endswith(".a") or word.startswith("-l")]
                options_told = [word for word in told if word not in libraries]
                words = [*compiler, *options, *options_told, "-o", str(output), *named]
                words += ["-x", "none", *linked, *libraries]
                subprocess.run(words, check=True, cwd=self.root, capture_output=True, text=True)
                return told
            except (OSError, subprocess.CalledProcessError):
                if number == len(ways) - 1:
                    raise
        raise AssertionError("no way")
