"""Measures builds after edits of comments in sources that have warnings, as most HIP sources do.

Small sources, four architectures, under ninja; plain clang, ccache and hipcache in turns, each with what it has built
before. In each round all sources are edited in the same way, to a text that no build has seen:

    end     a comment is added behind the last line
    middle  a comment between lines of code becomes another one of as many lines

No line that a warning quotes is edited.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import page
from build import ninja_file
from measure import Times, timed
from page import say
from result import median
from tool import Ccache, Hipcache, Tool, base_environment, find_compiler, find_ninja
from trouble import BenchError
from warm import SMALL
from workload import COMPILER, DEBIAN, DEBIAN_ARCHS, Compile, compile_of

# hipMalloc and the like are [[nodiscard]].
TALKS = """\
// round {round}
void fill{number}(int n) {{
  float* p; // of the device
  hipMalloc(&p, n * sizeof(float));
  run{number}(p, n);
  hipFree(p); // or leak
}}
"""
WARNINGS = ("hipMalloc", "hipFree")
EDITS: Mapping[str, Callable[[str, int], str]] = {
    "end": lambda text, number: f"{text}// behind the end, {number}\n",
    "middle": lambda text, number: text.replace("// round 0", f"// in round {number + 1}"),
}
TARGET = 0.5


@dataclass(frozen=True)
class Row:
    """One tool after one kind of edit: medians of the seconds of a build, and of hipcache's beside ccache's."""

    edit: str
    tool: str
    wall: float
    cpu: float


def main(argv: Sequence[str] | None = None) -> int:
    parser = page.parser("comments", __doc__, rounds=5)
    parser.add_argument("--objects", type=int, default=24, help="sources of the build (default: 24)")
    parser.add_argument("--compiler", default=COMPILER, help=f"the compiler (default: {COMPILER})")
    options = parser.parse_args(argv)

    def measure(directory: Path) -> tuple[Mapping[str, object], str]:
        env = base_environment(os.environ)
        tools = [kind(directory / "tools" / kind.name, env) for kind in (Tool, Ccache, Hipcache)]
        rows = Comments(directory, tools, options).measure()
        return {"rounds": options.rounds, "rows": [vars(row) for row in rows]}, render(rows, options)

    return page.write("comments", options.out, measure)


class Comments:
    """The builds, of one project."""

    def __init__(self, directory: Path, tools: Sequence[Tool], options: argparse.Namespace) -> None:
        self._directory = directory
        self._tools = tools
        self._options = options
        self._compiler = find_compiler(options.compiler)
        self._ninja = find_ninja()

    def measure(self) -> list[Row]:
        found: dict[tuple[str, str], list[Times]] = {}
        self._write(lambda text, _: text, 0)
        for tool in self._tools:
            tool.reset()
            if tool.caches:
                say(f"filling the store of {tool.title}")
                self._build(tool)
                self._build(tool)
        for number in range(self._options.rounds):
            for edit, change in EDITS.items():
                say(f"round {number + 1}: {edit}")
                self._write(change, number)
                for tool in self._tools:
                    found.setdefault((edit, tool.name), []).append(self._build(tool))
        return [
            Row(edit, tool, median([one.wall for one in takes]) or 0.0, median([one.cpu for one in takes]) or 0.0)
            for (edit, tool), takes in found.items()
        ]

    def _write(self, change: Callable[[str, int], str], number: int) -> None:
        for name in range(self._options.objects):
            text = SMALL.format(number=name) + TALKS.format(number=name, round=0)
            (self._directory / f"k{name}.hip").write_text(change(text, number))

    def _compile(self, tool: Tool, name: str) -> Compile:
        words = [*tool.launcher(), self._compiler, "-O3", "-std=c++17", *DEBIAN]
        return compile_of(words, DEBIAN_ARCHS.base, self._directory / name)

    def _build(self, tool: Tool) -> Times:
        """What it takes for all sources; each of them must be warned of as often as by plain clang."""
        build = self._directory / "build"
        shutil.rmtree(build, ignore_errors=True)
        build.mkdir()
        compiles = [self._compile(tool, f"k{number}.hip") for number in range(self._options.objects)]
        (build / "build.ninja").write_text(ninja_file(compiles))
        log = self._directory / "log"
        log.unlink(missing_ok=True)
        times = timed([self._ninja, "-j2"], cwd=build, env=tool.environment(), log=log)
        said, passes = log.read_text(), len(DEBIAN_ARCHS.base) + 1
        for name in WARNINGS:
            if said.count(f"  {name}(") != self._options.objects * passes:
                raise BenchError(f"{tool.title} gave {said.count(f'  {name}(')} warnings of {name}")
        return times


def render(rows: Sequence[Row], options: argparse.Namespace) -> str:
    """The tables."""
    about = (
        f"{options.objects} objects under ninja, {len(DEBIAN_ARCHS.base)} architectures, all of them with warnings: "
    )
    about += f"seconds of the CPU (by the clock), medians of {options.rounds} rounds"
    by = {(row.edit, row.tool): row for row in rows}
    names = [kind.name for kind in (Tool, Ccache, Hipcache)]
    table = [(edit, *(f"{by[edit, name].cpu:.2f} ({by[edit, name].wall:.2f})" for name in names)) for edit in EDITS]
    checked = []
    for edit in EDITS:
        ratio = by[edit, Hipcache.name].cpu / by[edit, Ccache.name].cpu
        checked.append((f"{edit} / ccache, CPU", f"{ratio:.3f}", *page.checked(ratio, TARGET)))
    lines = ["# Edits of comments", "", about, "", *page.table(("", *names), table)]
    return "\n".join([*lines, "", *page.table(("target", "is", "limit", ""), checked)]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
