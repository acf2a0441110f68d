"""Measures builds after a fresh clone: everything cached, and every file another one than it was.

A CI job has the same files with other inodes and times, and a store that was packed and unpacked. For each way many
small sources are built under ninja, with ccache and hipcache in turns:

    same      `git clone` into the same path
    unpacked  the same, with the store from a tar archive, in another place
    elsewhere `git clone` into another path, with the base directory that each tool is told of, and -ffile-prefix-map
    again     a second build of the last clone into the same path, where nothing is new
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import page
from build import ninja_file
from figures import Figures
from measure import timed
from page import say
from tool import Ccache, Hipcache, Tool, base_environment, find_compiler, find_ninja, find_program
from trouble import BenchError
from warm import SMALL
from workload import COMPILER, DEBIAN, DEBIAN_ARCHS, Compile, compile_of

WAYS = ("same", "again", "unpacked", "elsewhere")
TARGET = 1.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = page.parser("clone", __doc__, rounds=5)
    parser.add_argument("--objects", type=int, default=60, help="sources of the build (default: 60)")
    parser.add_argument("--compiler", default=COMPILER, help=f"the compiler (default: {COMPILER})")
    options = parser.parse_args(argv)

    def measure(directory: Path) -> tuple[Mapping[str, object], str]:
        env = base_environment(os.environ)
        tools = [kind(directory / "tools" / kind.name, env) for kind in (Ccache, Hipcache)]
        found = Clones(directory, tools, options).measure()
        plain = {way: {tool: vars(times) for tool, times in of.items()} for way, of in found.items()}
        return plain, render(found, options)

    return page.write("clone", options.out, measure)


class Moved(Hipcache):
    """hipcache with its store somewhere else."""

    def __init__(self, one: Tool, env: Mapping[str, str]) -> None:
        super().__init__(one.store.parent, env)
        self.store = one.store.parent / "unpacked" / "store"


class Clones:
    """The builds. Each tool has a project and a store of its own; the project's `src` and `build` are made anew."""

    def __init__(self, directory: Path, tools: Sequence[Tool], options: argparse.Namespace) -> None:
        self._directory = directory
        self._tools = tools
        self._options = options
        self._compiler = find_compiler(options.compiler)
        self._ninja = find_ninja()
        self._git = find_program("git", "install Debian's package 'git'")
        self._repository = directory / "repository"
        self._repository.mkdir()
        for number in range(options.objects):
            (self._repository / f"k{number}.hip").write_text(SMALL.format(number=number))
        me = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
        for words in (["init", "-q"], ["add", "."], [*me, "commit", "-q", "-m", "sources"]):
            subprocess.run([self._git, *words], cwd=self._repository, check=True)

    def measure(self) -> dict[str, dict[str, Figures]]:
        found: dict[str, dict[str, list[float]]] = {way: {} for way in WAYS}
        for tool in self._tools:
            say(f"filling the store of {tool.title}")
            tool.reset()
            self._clone(tool, "project")
            for _ in range(2):
                self._build(tool, "project")
        for number in range(self._options.rounds):
            say(f"round {number + 1}")
            for tool in self._tools:
                for way, seconds in self._round(tool, number).items():
                    found[way].setdefault(tool.name, []).append(seconds)
        return {way: {tool: Figures.of(all_) for tool, all_ in of.items()} for way, of in found.items()}

    def _round(self, tool: Tool, number: int) -> dict[str, float]:
        self._clone(tool, "project")
        same = self._build(tool, "project")
        time.sleep(2.5)  # a second build comes later than at once
        again = self._build(tool, "project")
        moved = self._unpacked(tool)
        self._clone(moved, "project")
        unpacked = self._build(moved, "project")
        place = f"checkout-{number}"
        self._clone(tool, place)
        return {"same": same, "again": again, "unpacked": unpacked, "elsewhere": self._build(tool, place)}

    def _place(self, tool: Tool, name: str) -> Path:
        return self._directory / f"of-{tool.name}" / name

    def _clone(self, tool: Tool, name: str) -> None:
        place = self._place(tool, name)
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(exist_ok=True)
        subprocess.run([self._git, "clone", "-q", self._repository, place], check=True)

    def _unpacked(self, tool: Tool) -> Tool:
        """The tool with its store from an archive: what a CI service saves and restores."""
        place = tool.store.parent / "unpacked"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        archive = place / "store.tar"
        subprocess.run(["tar", "-C", tool.store.parent, "-cf", archive, "store"], check=True)
        subprocess.run(["tar", "-C", place, "-xf", archive], check=True)
        env = base_environment(os.environ)
        if isinstance(tool, Hipcache):
            return Moved(tool, env)
        moved = Ccache(tool.store.parent, env)
        moved.store = place / "store"
        return moved

    def _compile(self, tool: Tool, place: Path, name: str) -> Compile:
        words = [*tool.launcher(), self._compiler, "-O2", "-std=c++17", *DEBIAN, f"-ffile-prefix-map={place}=."]
        return compile_of(words, DEBIAN_ARCHS.base[:2], place / name)

    def _build(self, tool: Tool, name: str) -> float:
        """CPU seconds for each object: user and system time of the whole build, ninja's own included."""
        place = self._place(tool, name)
        build = place / "build"
        shutil.rmtree(build, ignore_errors=True)
        build.mkdir()
        compiles = [self._compile(tool, place, f"k{number}.hip") for number in range(self._options.objects)]
        (build / "build.ninja").write_text(ninja_file(compiles))
        base = {"HIPCACHE_BASEDIR": str(place), "CCACHE_BASEDIR": str(place), "CCACHE_NOHASHDIR": "1"}
        env = {**tool.environment(), **base}
        times = timed([self._ninja, "-j2"], cwd=build, env=env, log=self._directory / "log")
        made = list(build.glob("*.o"))
        if len(made) != self._options.objects:
            raise BenchError(f"{tool.title} left {len(made)} objects of {self._options.objects}")
        return times.cpu / len(made)


def render(found: Mapping[str, Mapping[str, Figures]], options: argparse.Namespace) -> str:
    """The tables."""
    lines = [f"# Builds after a fresh clone\n\nCPU milliseconds for each of {options.objects} objects under ninja, "]
    lines[0] += f"medians (least) of {options.rounds} rounds\n"
    names = list(found[WAYS[0]])
    rows = [(way, *(f"{found[way][name].median:.2f} ({found[way][name].least:.2f})" for name in names)) for way in WAYS]
    lines += page.table(("", *names), rows)
    ratios = [(way, found[way][Hipcache.name].median / found[way][Ccache.name].median) for way in WAYS]
    checked = [(f"{way} / ccache", f"{value:.3f}", *page.checked(value, TARGET)) for way, value in ratios]
    lines += ["", *page.table(("target", "is", "limit", ""), checked)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
