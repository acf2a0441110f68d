"""Measures compiles that fail: hipcache beside plain clang, in CPU seconds and by the clock.

A small source was compiled and is edited then, so that it is wrong: in all passes (the first one finds it; also in a
new kernel, with -Wall -O2, after an edit of a comment that was compiled), in the host's pass alone, in one
architecture's code alone (the second one's); or the command has an unknown option, or asks for a standard that there is
not. Each take is another edit: a second try of the same text would be a known one. Plain clang and hipcache take turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import page
from page import say
from tool import Hipcache, Tool, base_environment, find_program
from trouble import BenchError
from warm import SMALL
from workload import COMPILERS, DEBIAN, DEBIAN_ARCHS

WRONG = {
    "all passes": "__device__ int f() {{ return wrong_{number}; }}\n",
    "new kernel": "__global__ void added(int* p) {{ *p = wrong_{number}; }}\n",
    "host alone": "#ifndef __HIP_DEVICE_COMPILE__\nint f() {{ return wrong_{number}; }}\n#endif\n",
    "one architecture": "#ifdef __gfx908__\n__device__ int f() {{ return wrong_{number}; }}\n#endif\n",
    "unknown option": "",
    "misspelt standard": "",
}
#: What the command has besides.
MORE = {"unknown option": ["--no-such-option"], "misspelt standard": ["-std=c++71"]}
COMMENTED = {"new kernel": "#include <cstdio>\n// take {number}\n"}
TARGET = 1.15


@dataclass(frozen=True)
class Row:
    """One kind of failure: medians of plain clang's and hipcache's seconds, and of the ratios of neighbours."""

    compiler: str
    archs: int
    kind: str
    plain_wall: float
    plain_cpu: float
    wall: float
    cpu: float
    wall_ratio: float
    cpu_ratio: float


def main(argv: Sequence[str] | None = None) -> int:
    parser = page.parser("failing", __doc__, rounds=9)
    parser.add_argument("--compilers", default=",".join(COMPILERS), help=f"(default: {','.join(COMPILERS)})")
    parser.add_argument("--kinds", default=",".join(WRONG), help="of failures (default: all)")
    options = parser.parse_args(argv)

    def measure(directory: Path) -> tuple[Mapping[str, object], str]:
        rows = Failing(directory, options).measure()
        return {"rounds": options.rounds, "rows": [vars(row) for row in rows]}, render(rows, options)

    return page.write("failing", options.out, measure)


class Failing:
    """The compiles, in one directory."""

    def __init__(self, directory: Path, options: argparse.Namespace) -> None:
        self._directory = directory
        self._options = options
        env = base_environment(os.environ)
        self._plain = Tool(directory / "tools" / "plain", env)
        self._hipcache = Hipcache(directory / "tools" / "hipcache", env)
        self._source = directory / "k.hip"

    def measure(self) -> list[Row]:
        rows = []
        for name in self._options.compilers.split(","):
            compiler = find_program(name, "install Debian's package, or name others with --compilers")
            for count in (2, 4):
                for kind in self._options.kinds.split(","):
                    say(f"{name}, {count} architectures, {kind}")
                    rows.append(self._row(name, compiler, count, kind))
        return rows

    def _row(self, name: str, compiler: str, count: int, kind: str) -> Row:
        self._hipcache.reset()
        level, before = (["-Wall", "-O2"], COMMENTED[kind]) if kind in COMMENTED else (["-O3"], "")
        words = [compiler, *level, "-std=c++17", *DEBIAN, *(f"--offload-arch={a}" for a in DEBIAN_ARCHS.base[:count])]
        words += ["-MD", "-MF", "k.o.d", "-o", "k.o", "-x", "hip", "-c", str(self._source)]
        takes = []
        for number in range(self._options.rounds):
            if before or not number:
                self._write(before.format(number=number))
                self._run(self._hipcache, words, 0)
            self._write(before.format(number=number) + WRONG[kind].format(number=number))
            others = [word for word in words if not (kind == "misspelt standard" and word.startswith("-std="))]
            wrong = [*others, *MORE.get(kind, [])]
            takes.append((*self._run(self._plain, wrong, 1), *self._run(self._hipcache, wrong, 1)))
        plain_wall, plain_cpu, wall, cpu = (statistics.median(seconds) for seconds in zip(*takes, strict=True))
        walls, cpus = (statistics.median(one[2 + at] / one[at] for one in takes if one[at]) for at in (0, 1))
        return Row(name, count, kind, plain_wall, plain_cpu, wall, cpu, walls, cpus)

    def _write(self, more: str) -> None:
        self._source.write_text(SMALL.format(number=1) + more)

    def _run(self, tool: Tool, words: list[str], status: int) -> tuple[float, float]:
        """Seconds by the clock, and of the CPU."""
        start = time.perf_counter()
        process = subprocess.Popen(
            [*tool.launcher(), *words],
            cwd=self._directory,
            env=tool.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, ended, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(ended)
        if process.returncode != status:
            raise BenchError(f"{tool.title} ended with status {process.returncode} instead of {status}")
        return wall, usage.ru_utime + usage.ru_stime


def render(rows: Sequence[Row], options: argparse.Namespace) -> str:
    """The tables."""
    about = f"Seconds by the clock / of the CPU, medians of {options.rounds} takes; ratios of neighbours"
    head = ("", "plain clang", "hipcache", "clock", "", "CPU", "")
    table = [
        (
            f"{row.compiler}, {row.archs} architectures: {row.kind}",
            f"{row.plain_wall:.3f} / {row.plain_cpu:.3f}",
            f"{row.wall:.3f} / {row.cpu:.3f}",
            f"{row.wall_ratio:.2f}",
            page.checked(row.wall_ratio, TARGET)[1],
            f"{row.cpu_ratio:.2f}",
            page.checked(row.cpu_ratio, TARGET)[1],
        )
        for row in rows
    ]
    return "\n".join(["# Compiles that fail", "", f"{about}. Target: {TARGET}", "", *page.table(head, table)]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
