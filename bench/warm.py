"""Measures warm builds: hipcache beside ccache, sccache, and a program that only copies the finished objects.

What is measured, each in turns within a round, on the same sources and in one run:

    ninja     many small sources, everything cached: the wall time of the whole build
    single    one source with 900 headers for eight architectures, everything cached; here and in the build hipcache is
              measured with its resident (which the first hit starts) and without
    large     the same with 300,000 more entries in hipcache's store
    phases    where hipcache's time goes in that compile (a launcher built with `phases.h`)
    scons     the same compile asked for in this process, as the SCons tool does
    miss      hipcache's own share of compiling the smallest kernel: CPU and wall time beside plain clang's
    share     the CPU time of hipcache itself (not of the compilers) in cold compiles of rocPRIM, beside plain clang's
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import page
from build import ninja_file
from figures import Figures
from floor import Copying, CopyingSmall
from hipcache.base import native
from measure import timed
from page import say
from phases import build_launcher_of_phases
from tool import Ccache, Hipcache, Sccache, Tool, base_environment, find_compiler, find_ninja
from trouble import BenchError
from warm_tables import render
from workload import COMPILER, DEBIAN, DEBIAN_ARCHS, HERE, Compile, compile_of, rocprim

SMALL = """\
#include <hip/hip_runtime.h>
#include <algorithm>
#include <vector>
__global__ void scale{number}(float* p, float by) {{ p[threadIdx.x + blockIdx.x * blockDim.x] *= by + {number}; }}
void run{number}(float* p, int n) {{ scale{number}<<<std::max(n / 256, 1), 256>>>(p, {number}.0f); }}
"""
SMALLEST = """\
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void*, dim3, dim3, void**, unsigned long, void*);
extern "C" unsigned __hipPopCallConfiguration(dim3*, dim3*, unsigned long*, void*);
__attribute__((global)) void k(int* p) { *p = 1; }
"""
WIDE, PARTS = "wide.hip", 520
# Compiles as the launcher does, and writes the CPU seconds of this process alone.
OWN = """\
import resource, sys
from hipcache.__main__ import main
status = main(sys.argv[2:])
used = resource.getrusage(resource.RUSAGE_SELF)
open(sys.argv[1], "w").write(str(used.ru_utime + used.ru_stime))
sys.exit(status)
"""
LARGE = 300_000


class Alone(Hipcache):
    """hipcache in the same places as `Hipcache`, without its resident."""

    name = "hipcache-alone"
    title = "hipcache without its resident"

    def settings(self) -> dict[str, str]:
        return {**super().settings(), "HIPCACHE_RESIDENT": "0"}


def main(argv: Sequence[str] | None = None) -> int:
    parser = page.parser("warm", __doc__, rounds=7)
    parser.add_argument("--objects", type=int, default=60, help="sources of the ninja build (default: 60)")
    parser.add_argument("--takes", type=int, default=10, help="single compiles in each turn (default: 10)")
    parser.add_argument("--entries", type=int, default=LARGE, help=f"entries of the large store (default: {LARGE})")
    parser.add_argument("--compiler", default=COMPILER, help=f"the compiler (default: {COMPILER})")
    options = parser.parse_args(argv)

    def measure(directory: Path) -> tuple[Mapping[str, object], str]:
        tools: list[Tool] = []
        env = base_environment(os.environ)
        try:
            for kind in (Copying, CopyingSmall, Ccache, Sccache, Alone, Hipcache):
                tools.append(kind(directory / "tools" / _shared(kind), env))
            found = Warm(directory, tools, options).measure()
        finally:
            for tool in tools:
                tool.close()
        return {name: _plain(value) for name, value in found.items()}, render(found, options)

    return page.write("warm", options.out, measure)


class Warm:
    """The builds. Each tool has a build directory and a store of its own."""

    def __init__(self, directory: Path, tools: Sequence[Tool], options: argparse.Namespace) -> None:
        self._directory = directory
        self._tools = tools
        self._options = options
        self._compiler = find_compiler(options.compiler)
        self._ninja = find_ninja()
        self._log = directory / "log"
        self._sources = directory / "src"
        self._sources.mkdir()
        for number in range(options.objects):
            (self._sources / f"k{number}.hip").write_text(SMALL.format(number=number))
        shutil.copytree(HERE / "sources", self._sources, dirs_exist_ok=True)
        (self._sources / "smallest.hip").write_text(SMALLEST)
        self._write_wide()

    def _write_wide(self) -> None:
        """The radix sort of rocPRIM, in a project of many headers."""
        (self._sources / "parts").mkdir()
        for number in range(PARTS):
            text = f"#pragma once\ninline int part{number}(int x) {{ return x + {number}; }}\n"
            (self._sources / "parts" / f"part{number}.hpp").write_text(text)
        lines = ['#include "sort.hip"', *(f'#include "parts/part{number}.hpp"' for number in range(PARTS))]
        (self._sources / WIDE).write_text("\n".join(lines) + "\n")

    def measure(self) -> dict[str, object]:
        rounds, takes = self._options.rounds, self._options.takes
        say("filling the stores: each source once with each tool")
        for tool in sorted(self._tools, key=lambda tool: isinstance(tool, Copying)):
            self._fill(tool)
        found: dict[str, object] = {"headers": self._headers()}
        for name, count, run in (("ninja", 1, self._build), ("single", takes, self._single)):
            say(f"{name}: {rounds} rounds")
            seconds: dict[str, list[float]] = {tool.name: [] for tool in self._tools}
            for _ in range(rounds):
                for tool in self._tools:
                    seconds[tool.name] += [run(tool) for _ in range(count)]
            found[name] = {tool: Figures.of(all_) for tool, all_ in seconds.items()}
        hipcache = self._tools[-1]
        found["scons"] = Figures.of([self._in_process(hipcache) for _ in range(rounds * takes)])
        found["phases"] = self._phases(hipcache, rounds * takes)
        found["miss"] = self._miss(hipcache)
        say("share")
        found["share"] = self._share()
        say(f"large: {self._options.entries} more entries")
        self._grow(hipcache)
        # For a moment after the compiles before, the resident is busy with what they told it.
        for _ in range(rounds * takes):
            self._single(hipcache)
        found["large"] = Figures.of([self._single(hipcache) for _ in range(rounds * takes)])
        return found

    # What is compiled

    def _compile(self, tool: Tool, name: str, archs: Sequence[str]) -> Compile:
        words = [*tool.launcher(), self._compiler, "-O2", "-std=c++17", *DEBIAN]
        return compile_of(words, archs, self._sources / name)

    def _small(self, tool: Tool) -> list[Compile]:
        names = [f"k{number}.hip" for number in range(self._options.objects)]
        return [self._compile(tool, name, DEBIAN_ARCHS.base[:2]) for name in names]

    def _large(self, tool: Tool) -> Compile:
        return self._compile(tool, WIDE, DEBIAN_ARCHS.many)

    def _place(self, tool: Tool) -> Path:
        return self._directory / f"build-{_shared(type(tool))}"

    def _fresh(self, tool: Tool) -> Path:
        place = self._place(tool)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return place

    # Builds

    def _fill(self, tool: Tool) -> None:
        """Twice: what is remembered only of files that are some seconds old, is there at the second time."""
        say(f"  {tool.title}")
        if isinstance(tool, Alone):
            return
        if isinstance(tool, Copying):
            shutil.copytree(self._place(self._tools[-1]), tool.store)
            return
        tool.reset()
        for _ in range(2):
            self._build(tool, keep=True)
            self._single(tool)

    def _build(self, tool: Tool, *, keep: bool = False) -> float:
        """`keep`: leave the dependency files, which ninja takes into its own log."""
        place = self._fresh(tool)
        (place / "build.ninja").write_text(ninja_file(self._small(tool)))
        return self._timed([self._ninja, "-j2", *(["-d", "keepdepfile"] if keep else [])], tool, place)

    def _single(self, tool: Tool) -> float:
        place = self._place(tool)
        for name in (f"{WIDE}.o", f"{WIDE}.o.d"):
            (place / name).unlink(missing_ok=True)
        return self._timed(list(self._large(tool).argv), tool, place)

    def _timed(self, argv: list[str], tool: Tool, place: Path) -> float:
        return timed(argv, cwd=place, env=tool.environment(), log=self._log).wall

    def _in_process(self, tool: Tool) -> float:
        argv = list(self._large(tool).argv)[len(tool.launcher()) :]
        start = time.perf_counter()
        hit = native.hit(
            str(tool.store), str(self._place(tool)), argv, tool.environment(), terminal=False, resident=True
        )
        seconds = time.perf_counter() - start
        if hit is None:
            raise BenchError("the compile in this process was no direct hit")
        return seconds

    def _phases(self, tool: Tool, takes: int) -> dict[str, Figures]:
        program = build_launcher_of_phases(self._directory / "phases")
        argv = [str(program), *list(self._large(tool).argv)[len(tool.launcher()) :]]
        seconds: dict[str, list[float]] = {}
        for _ in range(takes):
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            done = subprocess.run(argv, cwd=self._place(tool), env=tool.environment(), capture_output=True, check=True)
            for line in done.stderr.decode().splitlines():
                _, name, at = line.split()
                seconds.setdefault(name, []).append((int(at) - before) / 1e9)
                before = int(at)
        return {name: Figures.of(all_) for name, all_ in seconds.items()}

    def _miss(self, tool: Tool) -> dict[str, Figures]:
        """The smallest kernel, compiled by both in turns; hipcache's CPU and wall time less plain clang's."""
        plain = Tool(self._directory / "tools" / "plain", base_environment(os.environ))
        bare = ("-nogpuinc", "-nogpulib", "--offload-arch=gfx906", "-O2", "-o", "smallest.o", "-x", "hip", "-c")
        walls: dict[str, list[float]] = {"wall": [], "cpu": [], "plain": []}
        for number in range(self._options.rounds):
            times = []
            for one in (plain, tool):
                words = [*one.launcher(), self._compiler, f"-DN={number}", *bare, str(self._sources / "smallest.hip")]
                env = one.environment()
                times.append(timed(words, cwd=self._place(tool), env=env, log=self._log))
            walls["wall"].append(times[1].wall - times[0].wall)
            walls["cpu"].append(times[1].cpu - times[0].cpu)
            walls["plain"].append(times[0].wall)
        return {name: Figures.of(all_) for name, all_ in walls.items()}

    def _share(self) -> dict[str, tuple[float, float]]:
        """(hipcache's own CPU seconds, plain clang's) for each source in turn: the first one meets an empty store, in
        which not even the tools are known, the others one that has tools and headers, but none of their units."""
        env = base_environment(os.environ)
        plain = Tool(self._directory / "tools" / "plain", env)
        mine = Hipcache(self._directory / "tools" / "share", env)
        place, told = self._fresh(mine), self._directory / "own"
        mine.reset()
        found: dict[str, tuple[float, float]] = {}
        for name in ("scan.hip", *(name for name in rocprim().sources if name != "scan.hip")):
            words = list(self._compile(plain, name, DEBIAN_ARCHS.base).argv)
            cpu = timed(words, cwd=place, env=plain.environment(), log=self._log).cpu
            argv = [sys.executable, "-c", OWN, str(told), *words]
            timed(argv, cwd=place, env=mine.environment(), log=self._log)
            found[name] = float(told.read_text()), cpu
        return found

    def _headers(self) -> int:
        rule = (self._place(self._tools[-1]) / f"{WIDE}.o.d").read_text()
        return len(shlex.split(rule.replace("\\\n", " "))) - 1

    def _grow(self, tool: Tool) -> None:
        """Entries that are as old as the others, in the same directories."""
        spaces = [tool.store / "v2" / space for space in ("actions", "blobs")]
        for space in spaces:
            for first in range(256):
                (space / f"{first:02x}").mkdir(exist_ok=True)
        for number in range(self._options.entries):
            name = f"{number * 2654435761 % 2**32:08x}{number:056x}"
            with open(spaces[number % 2] / name, "xb"):
                pass


def _shared(kind: type[Tool]) -> str:
    """The name of its store and build directory."""
    return Hipcache.name if issubclass(kind, Hipcache) else kind.name


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return asdict(value) if isinstance(value, Figures) else value


if __name__ == "__main__":
    sys.exit(main())
