"""A builder of packages, for tests: it makes a package of a source tree, and hands back what is in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from io import BytesIO
from pathlib import Path

import pytest
from hip import HIP_IN_SHORT, LAUNCHER, kernel

CHECKOUT = Path(__file__).parent.parent
PACKAGING = CHECKOUT / "packaging"
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Source:
    """A source tree; how it is built, and installed below $DESTDIR; and the file that is compared."""

    files: Mapping[str, str]
    build: str
    install: str
    made: str


MAKEFILE = """\
HIPCXX ?= /usr/lib/llvm-19/bin/clang++
all: libdemo.a
%.o: %.hip
	$(LAUNCHER) $(HIPCXX) -x hip $(ARCHES:%=--offload-arch=%) -nogpuinc -nogpulib -I$(CURDIR) $(CXXFLAGS) -cuid=$* \\
		-c $(CURDIR)/$< -o $@
libdemo.a: one.o two.o
	ar rcsD $@ $^
clean:
	rm -f *.o *.a
install:
	install -Dm644 libdemo.a $(DESTDIR)/usr/lib/libdemo.a
"""
SMALL = Source(
    {
        "Makefile": MAKEFILE,
        "hip_in_short.hpp": HIP_IN_SHORT,
        "one.hip": kernel("1"),
        "two.hip": kernel("sizeof(__FILE__)"),
    },
    "make",
    "make install",
    "usr/lib/libdemo.a",
)


def columns(language: str) -> Source:
    """The example, without its line for hipcache, as a package's rules build it: as "hip", or by "hipcc" as CXX."""
    example = CHECKOUT / "examples/cmake"
    files = {
        path.relative_to(example).as_posix(): path.read_text()
        for path in example.rglob("*")
        if path.is_file() and path.suffix in (".hip", ".hpp", ".cpp", ".txt", ".cmake")
    }
    files["HipToolchain.cmake"] = (CHECKOUT / "cmake/HipToolchain.cmake").read_text()
    files["CMakeLists.txt"] = files["CMakeLists.txt"].replace("include(HipCache)\n", "")
    configure = "--toolchain HipToolchain.cmake -DCMAKE_HIP_ARCHITECTURES=\"$(echo $ARCHES | tr ' ' ';')\""
    if language == "hipcc":
        # CMake says `-x c++` of another suffix.
        files = {name.replace(".hip", ".cpp"): text for name, text in files.items()}
        files["CMakeLists.txt"] = HIPCC_LISTS
        configure = "-DCMAKE_CXX_COMPILER=/usr/bin/hipcc -DARCHES=\"$(echo $ARCHES | tr ' ' ';')\""
    build = f"cmake -S . -B build -DCMAKE_BUILD_TYPE=Release {configure} && cmake --build build --target columns -j2"
    install = "install -Dm644 build/libcolumns.a $DESTDIR/usr/lib/libcolumns.a"
    return Source(files, build, install, "usr/lib/libcolumns.a")


HIPCC_LISTS = """\
cmake_minimum_required(VERSION 3.21)
project(columns LANGUAGES CXX)
file(GLOB sources CONFIGURE_DEPENDS src/*.cpp)
add_library(columns STATIC ${sources})
target_include_directories(columns PUBLIC include)
target_compile_features(columns PUBLIC cxx_std_17)
list(TRANSFORM ARCHES PREPEND --offload-arch=)
target_compile_options(columns PRIVATE ${ARCHES}
  --rocm-path=/usr --rocm-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode)
"""


@dataclass(frozen=True)
class Entry:
    """One entry of a package's changelog. Its date is past: what is newer than that has that date in a package."""

    version: str = "1"
    day: int = 1

    @property
    def rfc2822(self) -> str:
        return f"{('Sun', 'Mon', 'Tue')[self.day - 1]}, {self.day:02} Nov 2020 12:00:00 +0000"

    @property
    def epoch(self) -> int:
        return int(datetime(2020, 11, self.day, 12, tzinfo=timezone.utc).timestamp())

    @property
    def rpms(self) -> str:
        return f"{('Sun', 'Mon', 'Tue')[self.day - 1]} Nov {self.day:02} 2020"


FIRST, NEXT = Entry(), Entry(day=2)


class Builder:
    """`place`: one that other users may enter."""

    tools: tuple[str, ...] = ()
    user: int | None = None
    # The last package as a whole, where a builder writes no more into it than what it was given.
    whole: bytes = b""

    def __init__(self, place: Path) -> None:
        for tool in self.tools:
            if not shutil.which(tool, path=SYSTEM_PATH):
                pytest.skip(f"{tool} is not installed (scripts/setup.sh)")
        self.place = place
        self.store = place / "store"
        (place / "home").mkdir()
        self._own(place, place / "home")

    def build(self, name: str, source: Source, entry: Entry, environ: Mapping[str, str]) -> bytes:
        """Build the package in a directory of that name; the content of the file that it is made for."""
        raise NotImplementedError

    def cached(self, name: str, source: Source, entry: Entry, environ: Mapping[str, str]) -> bytes:
        """The same through hipcache."""
        launchers = ("LAUNCHER", "CMAKE_HIP_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER")
        return self.build(name, source, entry, {**environ, **dict.fromkeys(launchers, LAUNCHER[0])})

    def run(
        self, argv: Sequence[str | Path], cwd: Path, environ: Mapping[str, str], *, privileged: bool = False
    ) -> bytes:
        """What it prints; `privileged`: as the user that the tests have, and not as the builder's."""
        told = {
            "PATH": SYSTEM_PATH,
            "HOME": str(self.place / "home"),
            "LC_ALL": "C.UTF-8",
            "HIP_PLATFORM": "amd",
            "HIPCACHE_DIR": str(self.store),
            "TMPDIR": str(self.place),
        }
        as_user = {} if self.user is None or privileged else {"user": self.user, "group": self.user, "extra_groups": []}
        done = subprocess.run(
            argv,
            cwd=cwd,
            env={**told, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=1800,
            **as_user,  # type: ignore[call-overload]
        )
        output: bytes = done.stdout
        assert done.returncode == 0, output.decode(errors="replace")[-20000:]
        return output

    def top(self, name: str, source: Source) -> Path:
        """An empty directory, and the source beside it."""
        tree = self.place / "source"
        for file, text in source.files.items():
            path = tree / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        top = self.place / name
        top.mkdir(parents=True)
        self._own(top)
        return top

    def _own(self, *paths: Path) -> None:
        for path in paths:
            if self.user is not None:
                os.chown(path, self.user, self.user)


def member(archive: bytes, name: str) -> bytes:
    """The content of a file in an archive."""
    with tarfile.open(fileobj=BytesIO(archive)) as opened:
        for one in opened:
            if one.name.lstrip("./") == name:
                file = opened.extractfile(one)
                assert file
                return file.read()
    raise AssertionError(f"there is no {name} in the package")
