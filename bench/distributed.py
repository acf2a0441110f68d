"""Measures a cold build of rocPRIM sources for 8 architectures, without and with workers of a server beside it.

The machine that builds has one core and one slot. Each worker is a buildbox-casd that runs one action at a time, pinned
to a core: the first to another one than the build's. Where the machine has no core left, the last worker shares that of
the build. Each build begins with an empty store and an empty server, so the compiler is uploaded, too; its objects are
compared with those of the build without workers.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import page
from build import ninja_file
from measure import timed
from page import say
from tool import Hipcache, base_environment, find_compiler, find_ninja, find_program
from trouble import BenchError
from workload import DEBIAN, DEBIAN_ARCHS, Compile, compile_of

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

ARCHES = 8
SOURCES = Path(__file__).resolve().parent / "sources"
NAMES = ("sort", "reduce", "scan", "merge_sort")


@dataclass(frozen=True)
class Built:
    """`wall`, `cpu`: seconds, the latter of the build's own processes; `there`: actions that workers ran."""

    workers: int
    wall: float
    cpu: float
    there: int
    taken_back: int
    faults: int
    same: bool


def main(argv: Sequence[str] | None = None) -> int:
    parser = page.parser("distributed", __doc__, rounds=1)
    parser.add_argument("--sources", default=",".join(NAMES[1:3]), help=f"of {','.join(NAMES)}")
    parser.add_argument("--workers", default="0,1,2", help="numbers of workers, one build each (default: 0,1,2)")
    parser.add_argument("--compiler", default="clang++-15", help="the compiler (default: clang++-15)")
    options = parser.parse_args(argv)

    def measure(directory: Path) -> tuple[Mapping[str, object], str]:
        load = os.getloadavg()[0]
        builds = Builds(directory, options)
        found = [builds.built(int(number)) for number in options.workers.split(",") for _ in range(options.rounds)]
        about = {"load": load, "sources": options.sources.split(","), "builds": [vars(one) for one in found]}
        return about, render(found, options, load)

    return page.write("distributed", options.out, measure)


class Builds:
    def __init__(self, directory: Path, options: argparse.Namespace) -> None:
        self._directory = directory
        self._options = options
        self._cores = sorted(os.sched_getaffinity(0))
        self._compiler = find_compiler(options.compiler)
        self._ninja = find_ninja()
        self._taskset = find_program("taskset", "install util-linux")
        self._objects: list[str] = []

    def built(self, workers: int) -> Built:
        say(f"a build with {workers} workers")
        lab = importlib.import_module("remote_lab")  # of tests/
        place = self._directory / f"with-{workers}"
        shutil.rmtree(place, ignore_errors=True)
        (place / "run").mkdir(parents=True, mode=0o700)
        with ExitStack() as running:
            urls = []
            for number in range(workers):
                server = lab.executor(place / f"worker{number}")
                core = self._cores[(number + 1) % len(self._cores)]
                jobs = ["--jobs=1" if word.startswith("--jobs=") else word for word in server.argv]
                server.argv = [self._taskset, "-c", str(core), *jobs]
                urls.append(f"{running.enter_context(lab.running(server)).url}?jobs=2")
            env = {**base_environment(os.environ), "XDG_RUNTIME_DIR": str(place / "run"), "HIPCACHE_JOBS": "1"}
            tool = Hipcache(place / "tool", {**env, "HIPCACHE_EXECUTOR": " ".join(urls) or "none"})
            tool.reset()
            return self._timed(tool, place, workers)

    def _timed(self, tool: Hipcache, place: Path, workers: int) -> Built:
        build = place / "build"
        build.mkdir()
        names = self._options.sources.split(",")
        (build / "build.ninja").write_text(ninja_file([self._compile(tool, name) for name in names]))
        words = [self._taskset, "-c", str(self._cores[0]), self._ninja, "-j", str(max(2, len(names)))]
        times = timed(words, cwd=build, env=tool.environment(), log=self._directory / "log")
        counts = tool.counters()
        objects = [hashlib.sha256((build / f"{name}.hip.o").read_bytes()).hexdigest() for name in names]
        if not workers:
            self._objects = objects
        tool.close()
        for socket in (place / "run/hipcache").glob("remote-*"):
            if socket.suffix != ".lock":
                socket.unlink(missing_ok=True)
        faults = sum(count for name, count in counts.items() if name.startswith("execution_faults."))
        back, there = counts["executions.taken back"], counts["executions.done"]
        return Built(workers, times.wall, times.cpu, there, back, faults, not self._objects or objects == self._objects)

    def _compile(self, tool: Hipcache, name: str) -> Compile:
        words = [*tool.launcher(), self._compiler, "-O3", "-std=c++17", *DEBIAN]
        return compile_of(words, DEBIAN_ARCHS.many[:ARCHES], SOURCES / f"{name}.hip")


def render(found: Sequence[Built], options: argparse.Namespace, load: float) -> str:
    """The table. Raises BenchError where a worker has made another object."""
    if not all(one.same for one in found):
        raise BenchError("an object with workers is another one than without")
    text = "# A cold build on workers\n\n"
    text += f"rocPRIM sources ({options.sources}) for {ARCHES} architectures by {shlex.quote(options.compiler)}: the "
    text += "machine that builds has one core, each worker is a buildbox-casd with one action at a time. "
    text += (
        f"There were {len(os.sched_getaffinity(0))} cores for all of them: where the build and the workers are more, "
    )
    text += (
        "the last worker shares the core of the build. Seconds of the whole build, with the upload of the compiler; "
    )
    text += f"CPU seconds are those of the build's own processes. The load was {load:.1f} at the begin.\n"
    rows, alone = [], 0.0
    for one in found:
        alone = alone if one.workers else one.wall
        faster = f"{alone / one.wall:.2f}" if alone else "-"
        rows.append(
            (
                *(str(one.workers), f"{one.wall:.1f}", faster, f"{one.cpu:.1f}"),
                *(str(one.there), str(one.taken_back), str(one.faults)),
            )
        )
    head = ("workers", "wall", "times as fast", "CPU here", "actions there", "taken back", "faults")
    return "\n".join([text, *page.table(head, rows)]) + "\n"


def _stop(signal_number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)  # the servers end with it
    sys.exit(main())
