"""`hipcache demo`: sources compiled as a project goes on, by hipcache and by plain clang, in a directory and with a
store that are removed in the end."""

from __future__ import annotations

import argparse
import shlex
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from hipcache.base.errors import HipcacheError
from hipcache.base.files import write_whole
from hipcache.base.values import dataclass
from hipcache.cli import Console, page
from hipcache.cli.screen import Screen, asked_units
from hipcache.cli.toolchain import Machine, Toolchain, clang_of_hipcc, compilers, examine, resolve
from hipcache.processes.runner import Completed
from hipcache.report import stats_log

SUMMARY = "show in a minute what is saved: a source compiled cold, warm, for more architectures, after an edit"
_SOURCE = """\
#include <hip/hip_runtime.h>
template <int N> __global__ void kernel(float* p, int count)
{
    __shared__ float part[256];
    float sum = 0;
    for (int at = threadIdx.x; at < count; at += blockDim.x)
        for (int n = 0; n < N; n++)
            sum += sinf(p[at] * n) / (n + 1.0f);
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 128; step; step /= 2) {
        if (threadIdx.x < step)
            part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    p[threadIdx.x] = part[0];
}
template <int N> void start(float* p)
{
    kernel<N><<<1, 256>>>(p, 1000);
    if constexpr (N > 1)
        start<N - 1>(p);
}
int run(float* p)
{
    start<12>(p);
    return 0;
}
"""
_WANTED = ("gfx906", "gfx908", "gfx90a", "gfx942", "gfx1010", "gfx1030", "gfx1100", "gfx1201")
_MOST = 5  # the last of which is added later
_BAR = 20


@dataclass(frozen=True)
class DemoStep:
    """What a project does next: which architectures it compiles for, and what it adds to each source."""

    title: str
    arches: tuple[str, ...]
    edit: str = ""


@dataclass(frozen=True)
class Row:
    """The CPU seconds of a step, and the sources whose two objects differ."""

    cached: float
    plain: float
    different: list[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources", nargs="*", type=Path, metavar="SOURCE", help="sources of your own, in place of the demo's"
    )
    parser.add_argument("--flags", default="-O3 -std=c++17", help="options of their compiles; default: %(default)s")
    parser.add_argument("--report", type=Path, metavar="FILE", help="also write the report of these compiles, as HTML")


def run(options: argparse.Namespace, console: Console) -> int:
    if not resolve("hipcache", console.environ):
        raise HipcacheError("'hipcache' is not on PATH", "link it into a directory of PATH, such as ~/.local/bin")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # so that the directory goes
    machine = Machine(console.runner, {**console.environ, "HIP_PLATFORM": "amd"})
    toolchain = _toolchain(machine)
    *first, added = [arch for arch in _WANTED if arch in toolchain.arches][:_MOST]
    steps = (
        DemoStep("first compile", (*first,)),
        DemoStep("nothing changed", (*first,)),
        DemoStep(f"{added} added", (*first, added)),
        DemoStep(f"only {' '.join(first[:2])}", (*first[:2],)),
        DemoStep("host code edited", (*first,), "int hipcache_demo_edit() { return 1; }\n"),
    )
    screen = Screen(console.out, console.environ)
    count = f"{len(options.sources)} sources" if len(options.sources) > 1 else "one source"
    screen.line(f"{count} for {', '.join(first)}; '{toolchain.compiler}', clang {toolchain.version}; CPU seconds")
    sources = {path.name: f'#include "{path.absolute()}"\n' for path in options.sources} or {"demo.hip": _SOURCE}
    words = (toolchain.compiler, *(toolchain.flags or ()), *shlex.split(options.flags))
    with TemporaryDirectory(prefix="hipcache-demo-", ignore_cleanup_errors=True) as place:
        rows = [_row(step, sources, words, machine, Path(place), console, screen) for step in steps]
        if options.report:
            told = page.Told("'hipcache demo'", list(stats_log.read(Path(place, "log"))))
            write_whole(options.report, page.page(told).encode(errors="backslashreplace"))
    cached, plain = sum(row.cached for row in rows), sum(row.plain for row in rows)
    screen.line(f"together {cached:.1f} s with hipcache, {plain:.1f} s with clang alone")
    different = [name for row in rows for name in row.different]
    same = "all objects are clang's own, byte for byte"
    screen.line(f"not clang's own objects: {', '.join(different)}" if different else same)
    screen.line("next: 'hipcache doctor --try' prints the command for each build tool here")
    return 1 if different else 0


def _toolchain(machine: Machine) -> Toolchain:
    """Of hipcc's compiler, else the first that compiles HIP. Raises HipcacheError."""
    for name in filter(None, (clang_of_hipcc(machine), *compilers(machine))):
        found = examine(name, machine)
        enough = len(set(_WANTED) & set(found.arches)) >= _MOST
        if found.flags is not None and found.hip_version and enough and not found.not_cached:
            return found
    raise HipcacheError("no compiler here compiles HIP through hipcache", "'hipcache doctor' says why")


def _row(
    step: DemoStep,
    sources: Mapping[str, str],
    compiler: Sequence[str],
    machine: Machine,
    place: Path,
    console: Console,
    screen: Screen,
) -> Row:
    log = place / "log"
    start = log.stat().st_size if log.exists() else 0
    own = {name: value for name, value in machine.environ.items() if not name.startswith("HIPCACHE_")}
    own |= {
        "HIPCACHE_DIR": f"{place}/store",
        "HIPCACHE_STATS_LOG": str(log),
        "HIPCACHE_RESIDENT": "0",
        "TMPDIR": str(place),
    }
    cached, plain, different = 0.0, 0.0, []
    for number, (name, text) in enumerate(sources.items()):
        source = place / f"{number}.hip"
        if not source.exists() or source.read_text() != text + step.edit:
            source.write_text(text + step.edit)
        # From clang 18 on an object contains its CUID, which hipcache chooses unless it is given.
        words = [*compiler, *(f"--offload-arch={arch}" for arch in step.arches), f"-cuid={number}"]
        words += ["-x", "hip", "-c", str(source), "-o"]
        cached += _timed(["hipcache", *words, f"{place}/cached.o"], own, console)
        plain += _timed([*words, f"{place}/plain.o"], own, console)
        if (place / "cached.o").read_bytes() != (place / "plain.o").read_bytes():
            different.append(name)
    total = stats_log.together(stats_log.read(log, start))
    missed = [name for name, tally in asked_units(total.units) if tally.misses]
    again = total.frontend.misses - sum(name in step.arches for name in missed) * len(sources)
    also = [f"{again} front ends"] if again > 0 else []
    compiled = "everything" if len(missed) > len(step.arches) else ", ".join([*missed, *also]) or "nothing"
    bar = "#" * round(_BAR * min(1.0, cached / plain))
    screen.line(f"  {step.title:<22}{bar:.<{_BAR}}  {cached:6.2f} s of {plain:6.2f} s   compiled: {compiled}")
    return Row(cached, plain, different)


def _timed(words: Sequence[str], environ: Mapping[str, str], console: Console) -> float:
    """Processor seconds of the command and all that it started. Raises HipcacheError if it fails."""
    done: Completed = console.runner.run(words, env=environ)
    if done.status:
        raise HipcacheError(f"'{' '.join(words)}' failed", done.stderr.decode("utf-8", "replace").strip())
    return done.work
