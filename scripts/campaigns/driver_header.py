#!/usr/bin/env python3
"""Compiles real sources with the driver's header precompiled and by plain clang: objects and messages must be the same.

    scripts/campaigns/driver_header.py COMPILER DIRECTORY... [--include DIR]... [--archs A,B] [--flags '...']...
                                       [--more '...'] [--most N]

Each directory is a program: its sources (`.cu`, `.hip`) that plain clang compiles are taken under each set of flags. A
source in which plain clang differs from itself is counted as such.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

FLAGS = ("-O3 -std=c++17", "-O0 -std=c++14", "-O3 -std=c++17 -fPIC -DNDEBUG", "-O2 -std=c++17 -g", "-O3 -std=c++20")
SOURCES = (".cu", ".hip")


def sources(directories: Sequence[Path]) -> Iterator[Path]:
    for directory in directories:
        yield from sorted(path for path in directory.rglob("*") if path.suffix in SOURCES)


def compiled(argv: list[str], source: Path, environ: Mapping[str, str], output: Path) -> tuple[int, bytes, bytes]:
    """The status, messages and object."""
    output.unlink(missing_ok=True)
    ended = subprocess.run(argv, cwd=source.parent, env=environ, capture_output=True, timeout=900, check=False)
    return ended.returncode, ended.stderr, output.read_bytes() if output.exists() else b""


def main() -> int:
    parser = argparse.ArgumentParser(description="the driver's header, precompiled, beside plain clang")
    parser.add_argument("compiler")
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--include", action="append", default=[], help="more directories of headers")
    parser.add_argument("--archs", default="gfx906,gfx1030")
    parser.add_argument("--flags", action="append", help="a set of options; may be repeated")
    parser.add_argument("--more", default="", help="options of all sets")
    parser.add_argument("--most", type=int, default=10**6, help="no more sources than that for each set")
    asked = parser.parse_args()
    launcher = [str(Path(sys.executable).with_name("hipcache"))]
    place, tally = Path(tempfile.mkdtemp(prefix="driver-header-")), Counter[str]()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HIPCACHE_")}
    environ |= {"HIPCACHE_DIR": str(place / "store"), "HIPCACHE_RESIDENT": "0", "HIP_PLATFORM": "amd", "LC_ALL": "C"}
    output = place / "out.o"
    try:
        for flags in asked.flags or FLAGS:
            taken = 0
            for source in sources(asked.directories):
                if taken == asked.most:
                    break
                argv = [
                    asked.compiler,
                    "-x",
                    "hip",
                    *shlex.split(flags),
                    *shlex.split(asked.more),
                    f"-cuid={source.stem}",
                ]
                argv += [f"--offload-arch={arch}" for arch in asked.archs.split(",")]
                argv += [f"-I{one}" for one in (".", *asked.include)] + ["-c", source.name, "-o", str(output)]
                plain = compiled(argv, source, environ, output)
                if plain[0] != 0:
                    continue
                taken += 1
                found = compiled([*launcher, *argv], source, environ, output)
                if found == plain:
                    tally["same"] += 1
                elif any(compiled(argv, source, environ, output) != plain for _ in range(7)):
                    tally["clang differs from itself"] += 1
                else:
                    tally["DIFFERENT"] += 1
                    print(f"DIFFERENT: {source}: {shlex.join(argv)}", flush=True)
            told = subprocess.run([*launcher, "stats", "--json"], env=environ, capture_output=True, check=True)
            stats = json.loads(told.stdout)
            print(f"{flags}: {dict(tally)}, {stats['preambles']}, without: {stats['without_preamble']}", flush=True)
        return tally["DIFFERENT"]
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    sys.exit(main())
