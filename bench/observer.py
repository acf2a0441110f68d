"""Measures the observer: a device front end alone, under hipcache's observer, and with a library in LD_PRELOAD.

The three take turns. The figures are CPU time, that of the observing process included, and wall-clock time. On a
shared machine two runs of the same pass differ by more than the observer costs. So two more figures are taken: the
ratio of the least times, and the number of calls that the observer holds, times that which it costs for each call of a
program that does nothing else.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import page
from hipcache.processes.runner import SubprocessRunner
from measure import Times
from page import say
from tool import base_environment, find_program
from trouble import BenchError
from workload import COMPILERS, DEBIAN

HERE = Path(__file__).resolve().parent
WAYS = ("plain", "observed", "preloaded")
#: Of the time of a front end.
TARGET = 1.03
#: Calls of the program that does nothing else, and how often it is run each way.
CALLS, REPEATED = 20_000, 15
HIP = "#include <hip/hip_runtime.h>\n__global__ void k(float *a) { a[threadIdx.x] *= 2.0f; }\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = page.parser("observer", __doc__, rounds=30)
    parser.add_argument("--compiler", nargs="*", default=[*COMPILERS], help="the compilers")
    options = parser.parse_args(argv)

    def measure(directory: Path) -> tuple[Mapping[str, object], str]:
        cost = measure_call(directory)
        found, calls = {}, {}
        for compiler in options.compiler:
            for name, source in sources(directory).items():
                one = Pass(directory, compiler, source)
                title = f"{name}, {os.path.basename(compiler)}"
                found[title], calls[title] = one.measure(options.rounds), one.calls
        figures: dict[str, object] = {
            name: {"calls": calls[name], **{way: [vars(one) for one in of] for way, of in ways.items()}}
            for name, ways in found.items()
        }
        return {"call": vars(cost), **figures}, render(found, calls, cost, options)

    return page.write("observer", options.out, measure)


def sources(directory: Path) -> dict[str, Path]:
    """By what they are called in the tables."""
    small = directory / "small.hip"
    small.write_text(HIP)
    return {"hip_runtime.h": small, "rocPRIM, sort": HERE / "sources" / "sort.hip"}


@dataclass(frozen=True)
class Cost:
    """Seconds of CPU time: for each call that is held, beyond the call itself; and once for each process."""

    call: float
    process: float


def measure_call(directory: Path) -> Cost:
    """The least of some runs each."""
    program = directory / "stats"
    words: list[str | Path] = [shutil.which("cc") or "cc", "-O2", "-o", program, HERE / "stats.c"]
    subprocess.run(words, check=True)
    runner = SubprocessRunner()
    least: dict[tuple[str, int], float] = {}
    for _ in range(REPEATED):
        for calls in (0, CALLS):
            argv = [str(program), str(calls)]
            for way, task in (
                ("plain", partial(runner.run, argv, cwd=directory, env={})),
                ("observed", partial(runner.trace, argv, cwd=directory, env={})),
            ):
                least[way, calls] = min(_timed(task).cpu, least.get((way, calls), math.inf))
    each = {way: (least[way, CALLS] - least[way, 0]) / CALLS for way in ("plain", "observed")}
    return Cost(each["observed"] - each["plain"], least["observed", 0] - least["plain", 0])


class Pass:
    """The device front end of one source, as hipcache runs it."""

    def __init__(self, directory: Path, compiler: str, source: Path) -> None:
        self.calls = 0  #: that the observer held
        self._directory = directory
        self._environ = base_environment(os.environ)
        self._argv = self._front_end(find_program(compiler, "install Debian's package, or name another one"), source)
        library = directory / "preload.so"
        compiled: list[str | Path] = [
            shutil.which("cc") or "cc",
            "-O2",
            "-shared",
            "-fPIC",
            "-o",
            library,
            HERE / "preload.c",
            "-ldl",
        ]
        subprocess.run(compiled, check=True)
        self._preloaded = {**self._environ, "LD_PRELOAD": str(library), "OBSERVED_TO": str(directory / "list")}

    def _front_end(self, compiler: str, source: Path) -> list[str]:
        words = [compiler, "-###", "-x", "hip", "-std=c++17", "-O3", *DEBIAN, "--offload-arch=gfx90a"]
        words += ["--cuda-device-only", "-c", str(source), "-o", str(self._directory / "out.o")]
        asked = subprocess.run(words, capture_output=True, text=True, env=self._environ, check=True).stderr
        job = next(shlex.split(line) for line in asked.splitlines() if '"-cc1"' in line)
        job[job.index("-emit-obj")] = "-emit-llvm-bc"
        return [*job, "-disable-llvm-passes"]

    def measure(self, rounds: int) -> dict[str, list[Times]]:
        runner = SubprocessRunner()
        found: dict[str, list[Times]] = {way: [] for way in WAYS}

        def run(environ: Mapping[str, str]) -> None:
            ended = runner.run(self._argv, cwd=self._directory, env=environ)
            if ended.status != 0:
                raise BenchError(f"the front end ended with status {ended.status}", os.fsdecode(ended.stderr))

        def trace() -> None:
            traced = runner.trace(self._argv, cwd=self._directory, env=self._environ)
            if traced.observed is None or traced.ended.status != 0:
                raise BenchError(f"the front end was not observed: {traced.why}")
            self.calls = traced.observed.count(b"\0")

        ways: dict[str, Callable[[], None]] = {
            "plain": lambda: run(self._environ),
            "observed": trace,
            "preloaded": lambda: run(self._preloaded),
        }
        say(f"{self._argv[0]}, {self._argv[-2]}")
        run(self._environ)
        for _ in range(rounds):
            for way in WAYS:
                found[way].append(_timed(ways[way]))
        return found


def _timed(task: Callable[[], object]) -> Times:
    before, start = _cpu(), time.perf_counter()
    task()
    return Times(time.perf_counter() - start, _cpu() - before)


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def render(
    found: Mapping[str, Mapping[str, list[Times]]], calls: Mapping[str, int], cost: Cost, options: argparse.Namespace
) -> str:
    """The tables."""
    lines = [
        "# The observer of a front end\n",
        f"{options.rounds} rounds. Medians of ratios made round by round, and the ratio of the least CPU times.\n",
    ]
    rows, counted, checked = [], [], []
    for name, ways in found.items():
        plain = ways["plain"]
        least = {way: min(one.cpu for one in of) for way, of in ways.items()}
        for way in WAYS:
            cpu, wall = (
                statistics.median(
                    getattr(one, kind) / getattr(first, kind) for one, first in zip(ways[way], plain, strict=True)
                )
                for kind in ("cpu", "wall")
            )
            ratio = least[way] / least["plain"]
            rows.append((name, way, f"{least[way]:.3f}", f"{ratio:.3f}", f"{cpu:.3f}", f"{wall:.3f}"))
        share = 1 + (calls[name] * cost.call + cost.process) / least["plain"]
        counted.append((name, f"{calls[name]}", f"{share:.3f}"))
        for what, value in (("least CPU", least["observed"] / least["plain"]), ("calls x cost", share)):
            checked.append((f"{name}, {what}", f"{value:.3f}", *page.checked(value, TARGET)))
    lines += page.table(("front end", "", "least CPU s", "least / plain's", "CPU, median", "wall, median"), rows)
    lines += [
        "",
        f"A call that is held costs {cost.call * 1e6:.1f} us of CPU time, a process {cost.process * 1e3:.2f} ms.\n",
        *page.table(("front end", "calls that are held", "by these, CPU / plain"), counted),
    ]
    lines += ["", *page.table(("target", "is", "limit", ""), checked)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
