#!/usr/bin/env python3
"""Compiles real sources with precompiled preambles and without hipcache: object, messages and dependency file must be
the same.

    scripts/compare_preambles.py DIRECTORY... [--compiler clang++-19] [--include DIR] [--archs gfx906,...] [--check N]
                                 [--seed N] [--seconds S] [--longest S] [--options SET...] [--flag=FLAG...]

Takes each .hip, .cu and .cpp file below the directories that plain clang compiles as HIP, with each of five sets of
options (-O3; -O0; -O2 -fPIC; -O2 with warnings; -g, which must go without), in an order that the seed tells. Prints for
each set how many sources and passes there were, why passes went without, and each difference; on standard error, how
far it is. Ends with status 1 if there was one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

OPTIONS = {
    "O3": ("-O3",),
    "O0": ("-O0",),
    "fPIC": ("-O2", "-fPIC"),
    "warnings": ("-O2", "-Wall", "-Wextra", "-Wconversion", "-Wshadow"),
    "g": ("-O2", "-g"),
}
DEBIAN = ("--rocm-path=/usr", "--rocm-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode")
LAUNCHER = str(Path(sys.executable).with_name("hipcache"))
HUNG = 10  # times as long as plain clang may take
Made = tuple[int, bytes, bytes, bytes]


def sources(directories: Sequence[Path]) -> Iterator[Path]:
    for directory in directories:
        found = [directory] if directory.is_file() else sorted(directory.rglob("*"))
        yield from (path.resolve() for path in found if path.suffix in (".hip", ".cu", ".cpp") and path.is_file())


def compile_one(argv: Sequence[str], place: Path, environ: Mapping[str, str], bound: float) -> Made:
    """(exit status, what was printed, object, dependency file)"""
    for name in ("out.o", "out.d"):
        (place / name).unlink(missing_ok=True)
    process = subprocess.Popen(
        argv, cwd=place, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    try:
        said, _ = process.communicate(timeout=bound)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the passes too
        process.communicate()
        raise
    made = [(place / name).read_bytes() if (place / name).exists() else b"" for name in ("out.o", "out.d")]
    return process.returncode, said, made[0], made[1]


def compare(found: Sequence[Path], compiler: str, options: Sequence[str], asked: argparse.Namespace) -> int:
    """The number of differences."""
    place = Path(tempfile.mkdtemp(prefix="hc-preambles-"))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HIPCACHE_")}
    environ |= {"HIPCACHE_DIR": str(place / "store"), "HIPCACHE_PREAMBLES": "1", "HIPCACHE_RESIDENT": "0"}
    environ |= {"HIPCACHE_PREAMBLE_CHECKS": str(asked.check), "HIP_PLATFORM": "amd", "LC_ALL": "C"}
    archs = [f"--offload-arch={arch}" for arch in asked.archs.split(",")]
    tally: Counter[str] = Counter()
    begun = time.monotonic()
    try:
        for number, source in enumerate(found, 1):
            print(f"{number} of {len(found)}: {_told(tally)}", file=sys.stderr)  # it takes an hour
            if asked.seconds and time.monotonic() - begun > asked.seconds:
                break
            include = [f"-I{path.resolve()}" for path in asked.include]
            words = [compiler, "-x", "hip", *archs, *options, "-std=c++17", *DEBIAN, *include]
            words += [*asked.flag, "-cuid=5eed", "-MD", "-MF", "out.d", "-c", str(source), "-o", "out.o"]
            try:
                plain = compile_one(words, place, environ, asked.longest)
            except subprocess.TimeoutExpired:
                tally["take too long"] += 1
                continue
            tally["compile" if plain[0] == 0 else "do not compile"] += 1
            tally["with messages"] += plain[0] == 0 and bool(plain[1])
            if plain[0] == 0:
                cached = compile_one([LAUNCHER, *words], place, environ, HUNG * asked.longest)
                names = ("status", "messages", "object", "dependencies")
                wrong = [name for name, one, two in zip(names, plain, cached, strict=True) if one != two]
                if wrong and compile_one(words, place, environ, HUNG * asked.longest)[2] != plain[2]:
                    tally["vary"] += 1  # plain clang differs from itself
                elif wrong:
                    tally["DIFFERENT"] += 1
                    print(f"{compiler} {' '.join(options)} {source}: other {', '.join(wrong)}", flush=True)
        words = [LAUNCHER, "stats", "--json"]
        stats = json.loads(subprocess.run(words, env=environ, capture_output=True, check=True).stdout)
        passes = stats["jobs"]["frontend"]["misses"] + stats["units"]["host"]["misses"]
        print(f"{compiler} {' '.join(options)}: sources: {_told(tally)}; {passes} passes,", end=" ")
        print(f"preambles: {stats['preambles']}, without: {stats['without_preamble']}", flush=True)
        return tally["DIFFERENT"] + int(stats["preambles"]["different"])
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _told(tally: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(tally.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--compiler", action="append", default=[])
    parser.add_argument("--include", action="append", type=Path, default=[])
    parser.add_argument("--archs", default="gfx906,gfx90a")
    parser.add_argument("--check", type=int, default=64, help="as HIPCACHE_PREAMBLE_CHECKS")
    parser.add_argument("--seconds", type=float, default=0, help="for each set of options at most so many")
    parser.add_argument("--longest", type=float, default=300, help="leave out what plain clang takes so long for")
    parser.add_argument("--seed", type=int, help="of the order of the sources (default: by name)")
    parser.add_argument("--options", choices=OPTIONS, nargs="+", default=list(OPTIONS))
    parser.add_argument("--flag", action="append", default=[], help="another option for each compile")
    asked = parser.parse_args()
    found = list(sources(asked.directories))
    if asked.seed is not None:
        random.Random(asked.seed).shuffle(found)
    compilers = asked.compiler or ["clang++-15", "clang++-19"]
    sets = [OPTIONS[name] for name in asked.options]
    wrong = sum(compare(found, compiler, options, asked) for compiler in compilers for options in sets)
    print(f"{wrong} differences")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
