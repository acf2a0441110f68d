"""Measures hipcache beside plain clang, ccache and sccache; writes figures, table and plot."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import machine
import plot
import report
from build import Bench
from progress import Progress
from result import Result, Subject
from scenario import FORMS, NAMES, Scenario, State, by_name
from series import Series
from tool import TOOLS, USUAL, Tool, base_environment, find_compiler, find_ninja
from trouble import BenchError
from workload import COMPILER, WORKLOADS

OUT = Path(__file__).resolve().parent.parent / "build" / "bench"
QUICK_WORKLOAD = "rocprim-light"
DEFAULT_WORKLOAD = "rocprim"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure or redraw, then report. The exit status is 0 also where a target is missed: a time proves no defect."""
    options = parse(argv)
    try:
        result = Result.load(options.redraw) if options.redraw else run(options)
        publish(result, options.out)
    except BenchError as error:
        print(f"\nbench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbench: stopped", file=sys.stderr)
        return 130
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench/run.py", description=__doc__, allow_abbrev=False)
    parser.add_argument("--runs", type=int, help="rounds in which each tool has its turn (default: 3; quick: 1)")
    parser.add_argument("--quick", action="store_true", help="light sources, one round: some 3 minutes on two cores")
    parser.add_argument("--workload", choices=WORKLOADS, help=f"what to compile (default: {DEFAULT_WORKLOAD})")
    parser.add_argument(
        "--tools", type=_names(TOOLS), default=USUAL, help=f"of {','.join(TOOLS)} (default: all but the last)"
    )
    parser.add_argument("--scenarios", type=_names(NAMES), default=list(NAMES), help=f"of {','.join(NAMES)}")
    parser.add_argument("--forms", type=_names(FORMS), default=list(FORMS), help=f"of {','.join(FORMS)}")
    parser.add_argument("--compiler", default=COMPILER, help=f"the compiler (default: {COMPILER})")
    parser.add_argument("--cores", type=int, default=2, help="cores to use, 0 for all (default: 2)")
    parser.add_argument("--out", type=Path, default=OUT, help="where results go (default: build/bench)")
    parser.add_argument("--redraw", type=Path, metavar="JSON", help="measure nothing: table and plot of an earlier run")
    parser.add_argument("--keep", action="store_true", help="leave the working directory, for a look at it")
    return parser.parse_args(argv)


def run(options: argparse.Namespace) -> Result:
    """Measure."""
    workload = WORKLOADS[options.workload or (QUICK_WORKLOAD if options.quick else DEFAULT_WORKLOAD)]
    rounds: int = options.runs or (1 if options.quick else 3)
    scenarios = _in_order(options.scenarios)
    compiler = find_compiler(options.compiler)
    ninja = find_ninja()
    if not plot.available():
        print("bench: no plot will be drawn: matplotlib is missing (this project's extra 'bench' brings it)")
    about = machine.describe(machine.keep_to(options.cores))
    with working_directory(options.keep) as directory, opened(options.tools, directory) as tools:
        bench = Bench(workload, compiler, ninja, directory, about.cores_used)
        versions = {tool.name: tool.version() or compiler_version(compiler) for tool in tools}
        series = Series(bench, options.forms, tools, scenarios, rounds)
        total = series.planned()
        progress = Progress(total, sys.stdout)
        progress.say(
            f"{total} builds of '{workload.name}' on {about.cores_used} cores; the load is {about.load_before} now"
        )
        if not options.quick:
            progress.say("A full run takes about 25 minutes on two idle cores; --quick takes 3.")
        samples = series.run(progress)
        progress.finish()
    return Result(
        date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        quick=options.quick,
        rounds=rounds,
        machine=about,
        workload=Subject.of(workload),
        versions=versions,
        samples=tuple(samples),
    )


def publish(result: Result, out: Path) -> None:
    """Write figures, table and plot, and show the table."""
    out.mkdir(parents=True, exist_ok=True)
    written = [out / "results.json", out / "results.md"]
    written[0].write_text(result.to_json(), encoding="utf-8")
    text = report.render(result)
    written[1].write_text(text, encoding="utf-8")
    if plot.available():
        written += plot.draw(result, out / "results")
    shown = [os.path.relpath(path) for path in written]
    print(f"\n{text}\nwritten: {', '.join(shown)}")


@contextlib.contextmanager
def opened(names: Sequence[str], directory: Path) -> Iterator[list[Tool]]:
    """The tools, each with a home under `directory`; servers are stopped at the end, whatever happens."""
    env = base_environment(os.environ)
    tools = [TOOLS[name](directory / "tools" / name, env) for name in names]
    try:
        yield tools
    finally:
        for tool in tools:
            tool.close()


@contextlib.contextmanager
def working_directory(keep: bool) -> Iterator[Path]:
    """A directory that is gone afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="hipcache-bench-"))
    try:
        yield directory
    finally:
        if keep:
            print(f"\nkept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


def compiler_version(compiler: str) -> str:
    """The first line of the compiler's version."""
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0] if done.stdout else "unknown"


def _in_order(names: Sequence[str]) -> list[Scenario]:
    """The scenarios of these names; the cold build comes with those that need its state."""
    chosen = by_name(names)
    if any(scenario.state is State.BASE for scenario in chosen) and "cold" not in names:
        chosen = by_name(["cold", *names])
    return chosen


def _names(known: Sequence[str] | dict[str, type[Tool]]) -> _List:
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
