"""Plain clang and hipcache side by side on random compiles and links: whatever differs is a fault of hipcache.

    scripts/fuzz.py [--seed N] [--count N] [--seconds S] [--real] [--assembler | --links | --objects | --labels]
                    [--compiler CLANG] [--launcher WORD... | --quick] [--keep DIR]

A case is a seed. It writes a small project, chooses a compiler and flags from tables (`fuzz_flags`,
`fuzz_link_flags`), and goes on in steps: each step edits something (a header, a flag, the archs, the
environment, the way the source is named) or nothing, runs plain clang, then hipcache in one of two stores, and compares

    the object's or program's bytes; exit status, standard output and standard error; the dependency file, in which
    hipcache may name more headers than clang, but only such as a device pass reads; what else lies in the directory.
    (A file in which two runs of plain clang differ, since it names clang's temporary files, is left out.)

A step that changes nothing must be a hit where the one before it was stored. A failure prints the seed, the command and
what differs; the same seed gives the same case again.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from fuzz_assembly import Assembly
from fuzz_case import LAUNCHER, Case, Difference
from fuzz_compile import Compile
from fuzz_links import Link
from fuzz_programs import Program


def check(
    seed: int,
    *,
    real: bool = False,
    launcher: Sequence[str] = LAUNCHER,
    programs: float = 0.1,
    kind: str = "",
    instead: str = "",
    keep: Path | None = None,
    tell: bool = False,
    tally: Counter[str] | None = None,
) -> str:
    """Run one seed; what differs, with the way to it, or nothing. `launcher`: what is put before the compiler;
    `programs`: the part of compiles that link at once; `kind`: another one of `KINDS` than compiles;
    `tell`: print the way in any case; `tally`: is added to."""
    root = Path(tempfile.mkdtemp(prefix="hipcache-fuzz-"))
    if kind:
        case = KINDS[kind](seed, root, real, launcher, instead)
    else:
        case = Compile(seed, root, real, launcher, instead, programs=programs)
    try:
        case.run()
    except Difference as error:
        if keep:
            shutil.copytree(root, keep / str(seed), symlinks=True)
        steps = "\n".join(f"  {step}" for step in case.said)
        asked = [*(["--real"] if real else []), *([f"--{kind}"] if kind else [])]
        asked += ["--compiler", instead] if instead else []
        return f"{' '.join(['seed', str(seed), *asked])}\n{steps}\n  {error}\n"
    finally:
        if tally is not None:
            tally.update(case.tally)
        shutil.rmtree(root, ignore_errors=True)
        if tell:
            print(f"seed {seed}", *case.said, sep="\n  ", flush=True)
    return ""


#: What is not a compile.
KINDS: dict[str, Callable[[int, Path, bool, Sequence[str], str], Case]] = {
    "assembler": Assembly,
    "links": Link,
    "objects": Program,
    "labels": partial(Compile, labels=1.0),
}


def _quick_launcher() -> Sequence[str]:
    """As tests start it (`tests/hip.py`)."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    found: Sequence[str] = importlib.import_module("launchers").LAUNCHER
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="plain clang and hipcache side by side on random compiles and links")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--count", type=int, default=100, help="how many")
    parser.add_argument("--seconds", type=float, default=0, help="go on for so long instead")
    parser.add_argument("--real", action="store_true", help="with HIP's own headers and device libraries")
    parser.add_argument("--programs", type=float, default=0.1, help="the part of compiles that link at once")
    kind = parser.add_mutually_exclusive_group()
    kind.set_defaults(kind="")
    for name, what in (
        ("assembler", "sources of the GPU's assembler"),
        ("links", "links of relocatable device code"),
        ("objects", "programs of several objects, under CUIDs of each side's own"),
        ("labels", "sources with functions that are named like intrinsics"),
    ):
        kind.add_argument(f"--{name}", action="store_const", const=name, dest="kind", help=what)
    start = parser.add_mutually_exclusive_group()
    start.add_argument("--launcher", nargs="+", default=LAUNCHER, help="what is put before the compiler")
    start.add_argument("--quick", action="store_true", help="start clang and hipcache as `make test` does")
    parser.add_argument(
        "--compiler", default="", help="this one, not clang 15 and 19 (for a newer one); options may follow"
    )
    parser.add_argument("--keep", type=Path, help="a directory for the projects and stores of failures")
    parser.add_argument("--tell", action="store_true", help="print every step of every case")
    options = parser.parse_args()
    end, seed, failures = time.monotonic() + options.seconds, options.seed, 0
    tally: Counter[str] = Counter()
    launcher = _quick_launcher() if options.quick else options.launcher
    while time.monotonic() < end if options.seconds else seed < options.seed + options.count:
        found = check(
            seed,
            real=options.real,
            launcher=launcher,
            programs=options.programs,
            kind=options.kind,
            instead=options.compiler,
            keep=options.keep,
            tell=options.tell,
            tally=tally,
        )
        if found:
            failures += 1
            print(found, flush=True)
        seed += 1
    print(json.dumps({"seeds": [options.seed, seed - 1], "failures": failures, **tally}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
