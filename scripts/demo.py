"""The main job, shown: examples/cmake built cold, warm, with an architecture added, with a subset, and after an edit of
host code; each step once through hipcache and once with plain clang.

Works in a directory of its own, with a store of its own. Ends with status 1 when the counters contradict what
hipcache promises: a warm build compiles nothing, one architecture more compiles that one only, a subset nothing, and a
host-only edit runs no device back end, and every object has the bytes of plain clang's.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from demo_builds import (
    CHECKOUT,
    PROGRAMS,
    Build,
    BuildFailed,
    Counters,
    Tally,
    clean,
    compare,
    difference,
    read_statistics,
)

EXAMPLE = CHECKOUT / "examples" / "cmake"

BASE = ("gfx906", "gfx90a", "gfx1010", "gfx1030")
ADDED = "gfx908"
SUBSET = ("gfx906", "gfx1030")


@dataclass(frozen=True)
class Step:
    """One row of the table: how to get there, and what must then be true."""

    title: str
    arches: tuple[str, ...]
    promise: Callable[[Counters], bool]
    promised: str
    prepare: Callable[[Path, Path], None] = lambda source, build: None


@dataclass
class Row:
    step: Step
    cached: float
    plain: float
    counters: Counters
    objects: int
    differing: list[str]  # objects that are not plain clang's, byte for byte


@dataclass
class Screen:
    """Progress: a bar on a terminal, one line for each finished build elsewhere."""

    builds: int
    out: TextIO = field(default_factory=lambda: sys.stdout)
    finished: int = 0

    def update(self, text: str, part: float) -> None:
        if not self.out.isatty():
            return
        share = (self.finished + part) / self.builds
        columns = shutil.get_terminal_size().columns
        bar = ("#" * round(share * 30)).ljust(30, ".")
        line = f"[{bar}] {share:4.0%}  {text}"
        self.out.write(f"\r\033[K{line[: columns - 1]}")
        self.out.flush()

    def done(self, text: str) -> None:
        self.finished += 1
        if self.out.isatty():
            self.update(text, 0)
        else:
            print(text, file=self.out, flush=True)

    def close(self) -> None:
        if self.out.isatty():
            self.out.write("\r\033[K")


def edit_host_code(source: Path, build: Path) -> None:
    """Add a host function to every HIP source, once for each build directory that shares the sources."""
    for path in sorted((source / "src").glob("*.hip")):
        text = path.read_text()
        if "_edited()" not in text:
            text += f'\nnamespace columns {{\n\nstd::string {path.stem}_edited()\n{{\n    return "yes";\n}}\n\n}}\n'
            path.write_text(text)


def steps() -> tuple[Step, ...]:
    def compiled(counters: Counters) -> set[str]:
        """What had to be compiled, architectures and host."""
        host = {"host"} if counters.host.misses else set()
        return host | {arch for arch, tally in counters.arches.items() if tally.misses}

    def served(counters: Counters, *arches: str) -> bool:
        return all(counters.arches.get(arch, Tally()).hits for arch in arches)

    return (
        Step(
            "cold, 4 architectures",
            BASE,
            lambda counters: compiled(counters) == {*BASE, "host"},
            "everything is compiled",
        ),
        Step(
            "warm, after a clean",
            BASE,
            lambda counters: not compiled(counters) and served(counters, *BASE),
            "nothing is compiled",
            clean,
        ),
        Step(
            f"{ADDED} added",
            (*BASE, ADDED),
            lambda counters: compiled(counters) == {ADDED} and served(counters, *BASE),
            f"only {ADDED} is compiled",
        ),
        Step(
            f"subset {' '.join(SUBSET)}",
            SUBSET,
            lambda counters: not compiled(counters) and served(counters, *SUBSET),
            "nothing is compiled",
        ),
        Step(
            "host-only edit, 4 arch.",
            BASE,
            lambda counters: compiled(counters) == {"host"} and not counters.backend.misses,
            "only host code is compiled, and no device back end runs",
            edit_host_code,
        ),
    )


# From clang 18 on an object contains its CUID, and the build directory counts in that.
SAME_CUIDS = """
get_target_property(sources columns SOURCES)
foreach(source IN LISTS sources)
  string(MD5 name "${source}")
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-cuid=${name}")
endforeach()
"""


def run(work: Path, screen: Screen, plan: tuple[Step, ...]) -> Iterator[Row]:
    source = work / "source"
    shutil.copytree(EXAMPLE, source)
    with (source / "CMakeLists.txt").open("a") as file:
        file.write(SAME_CUIDS)
    # The store of the demo, and no setting of the user: the numbers are to be the same everywhere.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HIPCACHE_")}
    environ |= {"HIPCACHE_DIR": str(work / "store"), "HIPCACHE_RESIDENT": "0", "HIP_PLATFORM": "amd"}
    environ.pop("CMAKE_HIP_COMPILER_LAUNCHER", None)

    module = f"-DCMAKE_MODULE_PATH={CHECKOUT / 'cmake'}"
    program = f"-DHIPCACHE_PROGRAM={PROGRAMS / 'hipcache'}"
    cached = Build("hipcache", source, work / "cached", environ, (module, program))
    plain = Build("plain clang", source, work / "plain", environ, (module, "-DHIPCACHE=OFF"))

    for step in plan:
        seconds = {}
        before = read_statistics(environ)
        for build in (cached, plain):
            text = f"{step.title}, {build.name}"
            screen.update(text, 0)
            if build.directory.exists():
                step.prepare(source, build.directory)
            build.configure(step.arches)
            seconds[build.name] = build.build(functools.partial(screen.update, text))
            screen.done(f"{text}: {seconds[build.name]:.1f} s")
        after = read_statistics(environ)
        same = compare(cached.directory, plain.directory)
        yield Row(step, seconds[cached.name], seconds[plain.name], difference(after, before), *same)


def table(rows: list[Row]) -> str:
    arches = (*BASE, ADDED)
    lines = [["", "hipcache", "clang", "ratio", *arches, "host", "back ends"]]
    for row in rows:
        counters = row.counters
        lines.append(
            [
                row.step.title,
                f"{row.cached:.1f} s",
                f"{row.plain:.1f} s",
                f"{row.cached / row.plain:.2f}",
                *(str(counters.arches.get(arch, Tally())) for arch in arches),
                str(counters.host),
                str(counters.backend),
            ]
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = []
    for line in lines:
        first, *rest = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        shown.append("  ".join([first.strip().ljust(widths[0]), *rest]).rstrip())
    shown.insert(1, "-" * sum(widths, 2 * (len(widths) - 1)))
    return "\n".join(shown)


def broken_promises(rows: list[Row]) -> list[str]:
    broken = []
    for row in rows:
        if not row.step.promise(row.counters):
            broken.append(f"{row.step.title}: {row.step.promised}, says the promise; the counters say {row.counters}")
        if row.counters.uncached:
            broken.append(f"{row.step.title}: {row.counters.uncached} compiles were not cached")
        if row.differing:
            broken.append(f"{row.step.title}: not plain clang's object: {', '.join(row.differing)}")
    return broken


def main() -> int:
    # Ended from outside, the demo still removes its directory.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    plan = steps()
    screen = Screen(builds=2 * len(plan))
    sources = len(list((EXAMPLE / "src").glob("*.hip")))
    print(f"examples/cmake: {sources} HIP sources on rocPRIM, CPU time of each build; some minutes\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="hipcache-demo-") as work:
        try:
            rows = list(run(Path(work), screen, plan))
        except BuildFailed as error:
            screen.close()
            print(f"{error}\ndemo: the example does not build; the output is above", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            screen.close()
            return 130
    screen.close()
    if not screen.out.isatty():
        print()
    print(table(rows))
    print("\nfor each architecture and the host: served from the store / compiled; back ends: skipped / run")
    objects, differing = sum(row.objects for row in rows), sum(len(row.differing) for row in rows)
    print(f"{objects - differing} of {objects} objects have the very bytes that plain clang makes")

    broken = broken_promises(rows)
    for line in broken:
        print(f"demo: {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
