"""Measures how long hipcache goes on after SIGTERM while it works through 100 MB of headers.

Compiles are started one after the other, each gets SIGTERM at a random moment of its time, and the seconds until its
process has ended are counted. In turns the store is empty, and what it has is of other headers (a comment is another
one in each), so that all is read, compared and looked up again. Plain clang, which ends by the signal at once, has its
turns with them.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import page
from page import say
from tool import base_environment, find_program
from trouble import BenchError
from workload import COMPILERS

WORDS = (
    "-x",
    "hip",
    "-nogpuinc",
    "-nogpulib",
    "-cuid=5eed",
    "--offload-arch=gfx90a",
    "-O0",
    "-c",
    "k.hip",
    "-o",
    "k.o",
)
#: Bytes of each header: a block comment, lines of comments, a string in one line, and code that is never compiled.
SIZE = 25_000_000
TARGET = 0.1
#: No compile takes so many seconds.
LIMIT = 600


def main(argv: Sequence[str] | None = None) -> int:
    parser = page.parser("ending", __doc__, rounds=20)
    parser.add_argument("--compiler", default=COMPILERS[-1], help=f"the compiler (default: {COMPILERS[-1]})")
    parser.add_argument("--seed", type=int, default=1, help="of the random moments")
    options = parser.parse_args(argv)

    def measure(directory: Path) -> tuple[Mapping[str, object], str]:
        found = Endings(directory, options.compiler).measure(options.rounds, random.Random(options.seed))
        return found, render(found, options)

    return page.write("ending", options.out, measure)


class Endings:
    """The source and its headers, in `directory`."""

    def __init__(self, directory: Path, compiler: str) -> None:
        self._directory = directory
        self._compiler = find_program(compiler, "install Debian's package, or name another one")
        self._program = find_program("hipcache", "install this project into the environment that runs the benchmark")
        self._store = directory / "store"
        self._environ = {**base_environment(os.environ), "HIPCACHE_DIR": str(self._store), "HIPCACHE_RESIDENT": "0"}
        self._edits = 0
        texts = ("/*{0}*/", "// {0}\n", 'const char *text = "{0}";\n', "#if 0\n{0}\n#endif\n")
        fillings = ("word *and another ", "a line\n// ", "a < b include ", "int f(int a); \"x\" 'y'\n")
        for number, (text, filling) in enumerate(zip(texts, fillings, strict=True)):
            (directory / f"h{number}.h").write_text(text.format(filling * (SIZE // len(filling))))
        lines = "".join(f'#include "h{number}.h"\n' for number in range(len(texts)))
        (directory / "k.hip").write_text(lines + "__attribute__((device)) int f() { return 1; }\n")

    def measure(self, rounds: int, chance: random.Random) -> Mapping[str, object]:
        """By way: how long a compile takes, and the seconds from the signal to the end of each that it met."""
        found: dict[str, object] = {}
        for way in ("plain", "empty store", "other headers"):
            whole = self._whole(way)
            ended = [self._end_after(way, chance.uniform(0, whole)) for _ in range(rounds)]
            late = [seconds for seconds in ended if seconds is not None]
            found[way] = {"whole": whole, "after": sorted(late)}
            say(f"{way}: {whole:.1f} s; after SIGTERM {statistics.median(late):.3f}, at most {max(late):.3f} s")
        return found

    def _start(self, way: str) -> subprocess.Popen[bytes]:
        if way == "empty store":
            shutil.rmtree(self._store, ignore_errors=True)
        if way == "other headers":
            self._edits += 1
            for header in sorted(self._directory.glob("h*.h")):
                with header.open("a") as file:
                    file.write(f"// edit {self._edits}\n")
        tool = [] if way == "plain" else [self._program]
        return subprocess.Popen([*tool, self._compiler, *WORDS], cwd=self._directory, env=self._environ)

    def _whole(self, way: str) -> float:
        """The seconds of a compile."""
        process = self._start(way)
        start = time.perf_counter()
        if process.wait(LIMIT) != 0:
            raise BenchError(f"{way}: the compile fails")
        return time.perf_counter() - start

    def _end_after(self, way: str, moment: float) -> float | None:
        """The seconds from SIGTERM at that moment to the end; None where the compile had ended before."""
        process = self._start(way)
        # subprocess would look every 50 ms; this descriptor becomes readable at the end.
        end = os.pidfd_open(process.pid)
        try:
            if select.select([end], [], [], moment)[0]:
                return None
            sent = time.perf_counter()
            process.send_signal(signal.SIGTERM)
            if not select.select([end], [], [], LIMIT)[0]:
                raise BenchError(f"{way}: the compile goes on {LIMIT} s after SIGTERM")
            return time.perf_counter() - sent
        finally:
            os.close(end)
            process.kill()
            process.wait()


def render(found: Mapping[str, object], options: argparse.Namespace) -> str:
    """The tables."""
    rows, worst = [], []
    for way, figures in found.items():
        assert isinstance(figures, dict)
        after = figures["after"]
        rows.append((way, f"{figures['whole']:.1f}", f"{statistics.median(after):.3f}", f"{max(after):.3f}"))
        if way != "plain":
            worst.append((f"{way}, the worst", f"{max(after):.3f}", *page.checked(max(after), TARGET)))
    lines = [
        "# SIGTERM while 100 MB of headers are read\n",
        f"{options.rounds} compiles each, {options.compiler}; those that ended before the signal are left out.\n",
    ]
    lines += page.table(("", "whole compile, s", "after SIGTERM, median s", "worst s"), rows)
    lines += ["", *page.table(("target", "is", "limit", ""), worst)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
