"""The fuzzer's programs of several objects, under hipcache's own CUIDs (`fuzz.py --objects`).

A project has two or three directories with a source of one name each: submodules, working copies in one that is none,
vendored copies, clones with a build tree each, symbolic links to one another. Its objects are compiled from within or
from above, to one name, twice with other options and moved in between, all in one command, or as one source; they are
linked by plain clang, out of static libraries or not. Compared is what one explicit `-cuid=` for both would hide: the
program links where it does with plain clang's objects, and has as many kernels and device variables of each name.

Where the rule needs a base directory (docs/safe.md: separate clones of projects with one name), there is one.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzz_case import BARE, LEVELS, SHORT_HEADER, Case, Difference

OLD, NEW = "--no-offload-new-driver", "--offload-new-driver"
COMPILERS = ("/usr/bin/clang++-15", "/usr/bin/clang++-19", "/usr/bin/clang++-22")
SOURCE = """\
#include "short.hpp"
#ifdef LOCAL
#include LOCAL
#endif
#ifndef NUMBER
#define NUMBER {number}
#endif
static __device__ int counter = NUMBER;
static __device__ int named = NUMBER;
static __global__ void fill(int* p) {{ p[0] = counter++ + NUMBER; }}
#ifdef LOCAL
static __global__ void local(int* p) {{ p[0] = sizeof(of_local); p[1] = int(of_local); }}
__attribute__((used)) static void* kept_local() {{ return (void*)local; }}
#endif
__attribute__((used)) static void* kept(bool which) {{ return which ? (void*)fill : (void*)&named; }}
"""
_CODE = b"\x7fELF\x02\x01\x01"
_GPU = 224  # EM_AMDGPU
_HASHED = re.compile(r"(__hip_cuid_|\.static\.|\.intern\.|__static__|__intern__|\.managed\.)[0-9a-f_]+")


@dataclass
class Compile:
    """One command: in the directory `cwd`; `moved`: the name that its object gets afterwards, or none of its own."""

    cwd: Path
    words: list[str]
    output: str
    moved: str = ""


class Program(Case):
    """Random objects of a project, and one link of all."""

    def run(self) -> None:
        """Raises Difference."""
        draw = self.random
        self.compiler = self.instead or draw.choice(COMPILERS)
        self.relocatable = draw.random() < 0.6
        self.driver = draw.choice([OLD, OLD, NEW])
        self.at_once = draw.random() < 0.2 and not self.relocatable
        self.whole = draw.random() < 0.3
        self._write_project()
        self.objects = list(self._compiles())
        plain = self._program([])
        self.said.append(f"plain clang: {plain}")
        for archs in draw.choice([("gfx906",), ("gfx906", "gfx906"), ("gfx90a", "gfx906")]):
            self.arch = archs
            cached = self._program(self.launcher) if archs == "gfx906" else self._objects(self.launcher)
            if archs != "gfx906" or plain is None:
                continue
            if cached != plain:
                raise Difference(f"the program has {cached}, plain clang's {plain}")

    arch = "gfx906"

    # The project

    def _write_project(self) -> None:
        draw = self.random
        self.top = draw.choice(["plain", "copy", "tree", "base"])
        if self.top == "copy":
            self._copy(".")
        elif self.top == "tree":
            self._tree(".")
        elif self.top == "base":
            self.variables["HIPCACHE_BASEDIR"] = str(self.work)
        self._write("short.hpp", "#pragma once\n" + SHORT_HEADER)
        self._write("f32/local.hpp", "static __device__ float of_local = 1;\n")
        self._write("f64/local.hpp", "static __device__ double of_local = 1;\n")
        places = draw.sample(
            ["liba", "libb", "liba/third_party/libb", "ext/libc", "libb/src/libd"], draw.choice([2, 3])
        )
        if self.top == "plain" and len({Path(place).name for place in places}) < len(places):
            self.variables["HIPCACHE_BASEDIR"] = str(self.work)
        self.places: list[tuple[str, str]] = []
        same_text = self.top != "plain" and draw.random() < 0.4
        for number, place in enumerate(places):
            self._write(f"{place}/src/util.hip", SOURCE.format(number=1 if same_text else number + 1))
            build = place
            kind = draw.choice(["copy", "copy", "external", "directory"])
            if kind != "directory":
                self._copy(place)
            if kind == "external":
                build = f"{place}-build"
                self._tree(build)
            self.places.append((place, build))
        if draw.random() < 0.3:
            (self.work / "linked").symlink_to(places[0])
            self.places.append(("linked", "linked-build"))
            self._tree("linked-build")
        if draw.random() < 0.3:
            part = f'namespace unity {{\n#include "{places[0]}/src/util.hip"\n}}\n'
            self._write("unity.hip", '#include "short.hpp"\n' + part)
            self.places.append(("unity", "."))
        self.said.append(
            f"{self.top} with {self.places}{' of one text' if same_text else ''}; {self.compiler} "
            f"{self.driver}{' -fgpu-rdc' if self.relocatable else ''}"
        )

    def _copy(self, place: str) -> None:
        """A submodule's or a clone's mark."""
        if self.random.random() < 0.5:
            self._write(f"{place}/.git", "gitdir: elsewhere\n")
        else:
            (self.work / place / ".git").mkdir(parents=True)

    def _tree(self, place: str) -> None:
        self._write(f"{place}/CMakeCache.txt", "")

    # Objects

    def _compiles(self) -> list[Compile]:
        draw, made, number = self.random, [], itertools.count(1)
        level = draw.choice(LEVELS)
        for place, build in self.places:
            source = self.work / ("unity.hip" if place == "unity" else f"{place}/src/util.hip")
            cwd = self.work / draw.choice([build, build, "."])
            cwd.mkdir(parents=True, exist_ok=True)
            output = draw.choice(["util.o", "sub/util.o"]) if cwd != self.work else f"{build}/util.o"
            os.makedirs((cwd / output).parent, exist_ok=True)
            name = draw.choice([str(source), os.path.relpath(source, cwd.resolve())])
            output = draw.choice([output, output, str(cwd / output)])
            include = draw.choice([["-I", str(self.work)], [f"-I{os.path.relpath(self.work, cwd.resolve())}"]])
            others: list[list[str]] = [[level]]
            if draw.random() < 0.4:
                others += draw.sample(
                    [
                        ["-O1", "-fno-inline"],
                        ["-DNUMBER=77"],
                        [level, "-std=c++20"],
                        ['-DLOCAL="local.hpp"', f"-I{self.work}/f32"],
                        ['-DLOCAL="local.hpp"', f"-I{self.work}/f64"],
                    ],
                    draw.choice([1, 2]),
                )
            for more in others:
                moved = str(self.work / f"moved{next(number)}.o") if len(others) > 1 or draw.random() < 0.2 else ""
                words = [*include, *more, *draw.choice([[], [], ["-MD"], ["-MD", "-MF", "dependencies"]]), "-c", name]
                made.append(Compile(cwd, words, output, moved))
        return made

    def _flags(self) -> list[str]:
        archs = ["--offload-arch=gfx906"] if self.arch == "gfx906" else ["--offload-arch=gfx90a,gfx906"]
        return [*archs, *BARE, "-x", "hip", "-fPIC", "-w", self.driver, *(["-fgpu-rdc"] if self.relocatable else [])]

    def _objects(self, launcher: Sequence[str]) -> list[str]:
        """Compiles all; raises Difference if one does not end as it should."""
        names = []
        for one in self.objects:
            path = one.cwd / one.output
            path.unlink(missing_ok=True)
            words = [*launcher, self.compiler, *self._flags(), *one.words, "-o", one.output]
            ended = self._ended(words, one.cwd)
            if ended.returncode:
                raise Difference(f"in {one.cwd}: {words}\n{ended.stderr}")
            if one.moved:
                path = Path(shutil.move(path, one.moved))
            names.append(str(path))
        return list(dict.fromkeys(names))

    def _program(self, launcher: Sequence[str]) -> dict[str, int] | None:
        """What the program has of device symbols, by name; None if it does not link."""
        program = self.work / "program.so"
        program.unlink(missing_ok=True)
        link = ["-shared", "-no-hip-rt", "-nogpulib", "-Wl,--unresolved-symbols=ignore-all", "-o", str(program)]
        if self.at_once:
            sources = [str(self.work / f"{place}/src/util.hip") for place, _ in self.places if place != "unity"]
            words = [*launcher, self.compiler, *self._flags(), f"-I{self.work}", *sources, *link]
        else:
            objects = self._objects(launcher)
            if self.whole and not self.relocatable:
                library = self.work / "libobjects.a"
                library.unlink(missing_ok=True)
                self._ended(["ar", "rcP", str(library), *objects], self.work)
                objects = ["-Wl,--whole-archive", str(library), "-Wl,--no-whole-archive"]
            relocatable = ["-fgpu-rdc", "--hip-link", self.driver, "--offload-arch=gfx906"] if self.relocatable else []
            words = [self.compiler, *relocatable, *objects, *link]
        ended = self._ended(words, self.work)
        if ended.returncode or not program.exists():
            self.said.append(f"{ended.stderr[-600:]}")
            return None
        return symbols_of(program.read_bytes(), self.root)

    def _ended(self, words: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("HIPCACHE_", "MAKE"))}
        environ |= {"LC_ALL": "C", "HIP_PLATFORM": "amd", "HIPCACHE_DIR": str(self.stores["a"]), **self.variables}
        return subprocess.run(words, cwd=cwd, env=environ, capture_output=True, text=True, timeout=600, check=False)


def symbols_of(program: bytes, scratch: Path) -> dict[str, int]:
    """Kernels and variables of all code objects in a program, by name without what CUIDs add to it."""
    found: Counter[str] = Counter()
    for match in re.finditer(re.escape(_CODE), program):
        code = program[match.start() :]
        if int.from_bytes(code[18:20], "little") == _GPU:
            path = scratch / "code"
            path.write_bytes(code)
            command = ["llvm-readelf-19", "--dyn-syms", "--wide", str(path)]
            listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
            names = [line.split()[7] for line in listed.splitlines() if len(line.split()) > 7]
            found.update(_HASHED.sub(r"\1", name) for name in names if name != "Name")
    return dict(found)
