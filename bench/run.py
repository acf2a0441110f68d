"""Measures hipcache beside plain clang, ccache and sccache on programs that others wrote, and rocPRIM's four cold.

Each object of each tool is compared with plain clang's, byte for byte. bench/README.md has the rule that chooses the
programs, and says what each row is.
"""

from __future__ import annotations

import argparse
import datetime
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import collection
import machine
import page
import rows
import table
from build import Bench, Objects
from page import say
from series import Sample, Series
from tool import TOOLS, Hipcache, Tool, base_environment, find_compiler, find_ninja
from workload import DEBIAN, DEBIAN_ARCHS, Architectures, rocprim

OUT = Path(__file__).resolve().parent / "results"
FLAGS = " ".join(("-O3", "-std=c++17", *DEBIAN))
#: Twelve that Debian's device libraries have.
MORE = ("gfx803", "gfx900", "gfx1010", "gfx1011", "gfx1012", "gfx1031", "gfx1032", "gfx1034")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure. The status is 1 if hipcache made a wrong object; a missed target is no fault: a time proves none."""
    options = parse(argv)
    wrong: list[Sample] = []

    def measure(directory: Path) -> tuple[Mapping[str, object], str]:
        start = time.monotonic()
        compiler, ninja = find_compiler(options.compiler), find_ninja()
        archs = architectures(options.archs)
        env = base_environment(os.environ)
        flags = tuple(f"{options.flags} {options.extra}".split())
        wanted = rows.titled(rows.chosen(options.rows), archs)
        tools = [TOOLS[name](directory / "tools" / name, env) for name in options.tools]
        versions = {tool.name: tool.version() or _version(tool, compiler) for tool in tools}
        benches: dict[str, Bench] = {}
        about: dict[str, str] = {}
        truth: dict[str, Objects] = {}
        if any(row.workload == rows.PROGRAMS for row in wanted):
            place = directory / rows.PROGRAMS
            say("choosing the programs")
            about["commit"] = collection.fetch(options.collection, place / "project")
            command = (compiler, "-DGIT_SHA=1")
            choice = collection.Choice(place / "project", command, flags, archs.many, place / "chosen", env)
            workload = choice.workload(options.slice, options.count, options.cores)
            truth["chosen"] = choice.made(workload.sources)
            benches[rows.PROGRAMS] = Bench(workload, archs, compiler, ninja, place, options.cores, options.base_dir)
        if any(row.workload == rows.ROCPRIM for row in wanted):
            place = directory / rows.ROCPRIM
            benches[rows.ROCPRIM] = Bench(rocprim(flags), archs, compiler, ninja, place, options.cores)
        series = Series(benches, tools, wanted, options.rounds, truth)
        try:
            samples = series.run()
        finally:
            for tool in tools:
                tool.close()
        wrong.extend(one for one in samples if one.tool == Hipcache.name and "differs" in one.differing.values())
        here = machine.describe(options.cores)
        about["machine"] = f"{here.cpu}, {here.cores_used} of {here.cores} cores, {here.memory_gib} GiB, {here.system}"
        about |= {"date": f"{datetime.date.today()}", "minutes": f"{(time.monotonic() - start) / 60:.0f}"}
        about |= {"failed": ", ".join(series.failures)} if series.failures else {}
        about |= {"compiler": compiler, "flags": " ".join(flags), "rounds": str(options.rounds)}
        about |= {"slice": str(options.slice)} | ({"base directory": "set in all rows"} if options.base_dir else {})
        chosen = {name: bench.workload.sources for name, bench in benches.items()}
        found = {"about": about, "versions": versions, "sources": chosen, "samples": [asdict(one) for one in samples]}
        return found, table.render(wanted, samples, about, versions, chosen, archs)

    name = f"programs-{Path(options.compiler).name}{f'-slice-{options.slice}' if options.slice else ''}"
    status = page.write(name, options.out, measure, options.cores)
    return 1 if wrong else status


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = page.parser("run", __doc__, rounds=1)
    known = os.environ.get(collection.VARIABLE) or collection.COLLECTION
    parser.add_argument("--collection", default=known, help=f"git repository of the programs ({collection.VARIABLE})")
    parser.add_argument("--slice", type=int, default=0, help="the first directory of the rule: 0 or 10 (default: 0)")
    parser.add_argument("--count", type=int, default=collection.COUNT, help="programs (default: 24)")
    parser.add_argument("--compiler", default="clang++-19", help="(default: clang++-19)")
    parser.add_argument("--flags", default=FLAGS, help=f"of all compiles (default: {FLAGS})")
    parser.add_argument("--extra", default="", help="more of them: --extra=-fPIC")
    parser.add_argument("--archs", default="", help="BASE[,BASE...] in place of the four and the twelve")
    parser.add_argument("--tools", type=_names(TOOLS), default=list(TOOLS), help=f"of {','.join(TOOLS)} (default: all)")
    usual = "all but device-if"
    parser.add_argument(
        "--rows",
        type=_names(rows.NAMES),
        default=list(rows.USUAL),
        help=f"of {','.join(rows.NAMES)} (default: {usual})",
    )
    parser.add_argument("--base-dir", action="store_true", help="set the base directory in all rows")
    parser.add_argument("--cores", type=int, default=2, help="cores to use, 0 for all (default: 2)")
    parser.set_defaults(out=OUT)
    options = parser.parse_args(argv)
    options.cores = options.cores or len(os.sched_getaffinity(0))
    return options


def architectures(names: str) -> Architectures:
    """The sets, with `names` in place of the usual four."""
    base = tuple(names.split(",")) if names else DEBIAN_ARCHS.base
    more = (DEBIAN_ARCHS.added,) if names else MORE
    return Architectures(base, tuple(dict.fromkeys((*base, *more))), DEBIAN_ARCHS.added)


def _version(plain: Tool, compiler: str) -> str:
    return plain.ask(compiler, "--version").splitlines()[0]


def _names(known: Sequence[str] | Mapping[str, object]) -> _List:
    return _List(tuple(known))


class _List:
    """A comma-separated choice among known names, put into their order."""

    def __init__(self, known: tuple[str, ...]) -> None:
        self._known = known

    def __call__(self, text: str) -> list[str]:
        wanted = text.split(",")
        for name in wanted:
            if name not in self._known:
                raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(self._known)}")
        return [name for name in self._known if name in wanted]


def _stop(signal_number: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    sys.exit(main())
