"""Records what the steps of compiles take, for `simulate.py`: CPU seconds of each process, without hipcache.

The steps are those of hipcache's plan: a front end that stops at bitcode, a back end that reads it, a device link, and
the host's pass with a placeholder for the fat binary. CPU seconds change little where other programs run beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from workload import DEBIAN

SOURCES = Path(__file__).resolve().parent / "sources"
OUT = Path(__file__).resolve().parent / "results" / "durations.json"
#: Of the first source; the others are compiled for one of them.
ARCHS = ("gfx906", "gfx90a", "gfx1030")
NAMES = ("sort", "reduce", "scan", "merge_sort")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench/durations.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--compiler", default="clang++-15", help="the compiler (default: clang++-15)")
    parser.add_argument("--out", type=Path, default=OUT, help="the file (default: bench/results/durations.json)")
    options = parser.parse_args(argv)
    found = {name: record(options.compiler, name, ARCHS if name == NAMES[0] else ARCHS[1:2]) for name in NAMES}
    about = {"unit": "CPU seconds", "compiler": options.compiler, "sources": found}
    options.out.write_text(json.dumps(about, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 0


def record(compiler: str, name: str, archs: Sequence[str]) -> dict[str, object]:
    """Of one source: seconds of the host's pass, and of front end, back end and device link of each arch."""
    with TemporaryDirectory() as place:
        devices: dict[str, tuple[float, float, float]] = {}
        for arch in archs:
            device, link, *_, host = plan([compiler, *DEBIAN, "-O3", "-std=c++17", f"--offload-arch={arch}"], name)
            bitcode, code = f"{place}/{arch}.bc", f"{place}/{arch}.o"
            front = taken([*replaced(device, "-emit-obj", "-emit-llvm-bc"), "-disable-llvm-passes", "-o", bitcode])
            back = taken([*of_bitcode(device), "-o", code, bitcode])
            devices[arch] = (front, back, taken([*inputs_replaced(link, code), "-o", f"{place}/{arch}.out"]))
        empty = Path(place, "empty")
        empty.touch()
        at = host.index("-fcuda-include-gpubinary")
        seconds = taken([*host[: at + 1], str(empty), *host[at + 2 :], "-o", f"{place}/host.o"])
    return {"host": seconds, "archs": devices}


def plan(command: Sequence[str], name: str) -> list[list[str]]:
    words = [*command, "-x", "hip", "-c", str(SOURCES / f"{name}.hip"), "-###"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stderr
    return [shlex.split(line) for line in said.splitlines() if line.startswith(' "')]


def replaced(words: Sequence[str], old: str, new: str) -> list[str]:
    return [new if word == old else word for word in words]


def of_bitcode(words: Sequence[str]) -> list[str]:
    """A device pass without its source, for bitcode: device libraries are linked into that already."""
    found: list[str] = []
    rest = iter(words[:-1])
    for word in rest:
        if word == "-mlink-builtin-bitcode":
            next(rest)
        else:
            found.append("ir" if word == "hip" and found[-1] == "-x" else word)
    return found


def inputs_replaced(words: Sequence[str], code: str) -> list[str]:
    return [code if word.startswith("/tmp/") and word.endswith(".o") else word for word in words]


def taken(words: Sequence[str]) -> float:
    """CPU seconds."""
    child = os.posix_spawn(words[0], list(words), os.environ)
    _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"bench: it fails: {shlex.join(words)}")
    return round(usage.ru_utime + usage.ru_stime, 3)


if __name__ == "__main__":
    sys.exit(main())
