"""Measures links of relocatable device code (-fgpu-rdc): hipcache beside plain clang.

ccache and sccache cache no links.

The objects are made by plain clang before, and not measured. In each round the tools link

    cold       with an empty store
    unchanged  the same objects again
    host       after an edit of host code in one source
    one arch   after an edit in one architecture's #if of one source

Each program that hipcache links has to be plain clang's, byte for byte.

All of that by the old offload driver, and by the new one. After edits not with clang 15: it notes the kernels that host
code uses in the order of their addresses in memory, so that two objects of one source differ in device code, too.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import page
from measure import timed
from page import say
from tool import Hipcache, Tool, base_environment, find_program
from trouble import BenchError
from workload import DEBIAN_ARCHS, DEVICE_IF, HOST, edited, rocprim

WORKLOAD = rocprim()
EDITED = "scan.hip"
MAIN = "int main() { return 0; }\n"
COLD, UNCHANGED = "cold", "unchanged"
#: Which edit comes before each link, and at most how much of plain clang's time it may take.
LINKS: dict[str, tuple[str, float | None]] = {
    COLD: ("", None),
    UNCHANGED: ("", 0.15),
    "host-only edit": (HOST, 0.15),
    "edit in one architecture": (DEVICE_IF, 0.25),
}


@dataclass(frozen=True)
class Driver:
    """An offload driver: of which clang, and the flags that choose it. `links`: those that are measured."""

    title: str
    compiler: str
    package: str
    flags: tuple[str, ...] = ()
    links: tuple[str, ...] = tuple(LINKS)


DRIVERS = {
    "old-15": Driver("old, clang 15", "clang++-15", "clang-15", links=(COLD, UNCHANGED)),
    "old": Driver("old, clang 19", "clang++-19", "clang-19"),
    "new": Driver("new, clang 19", "clang++-19", "clang-19", ("--offload-new-driver",)),
}


@dataclass(frozen=True)
class Row:
    """Seconds, medians of all rounds; `ratio`: the median of the rounds' ratios."""

    driver: str
    link: str
    plain: float
    hipcache: float
    ratio: float
    limit: float | None


def main(argv: Sequence[str] | None = None) -> int:
    parser = page.parser("link", __doc__, rounds=3)
    parser.add_argument("--driver", choices=list(DRIVERS), action="append", help="one of them alone (default: all)")
    parser.add_argument("--compiler", help="another one, by its own default driver")
    parser.add_argument("--extra", default="", help="flags for that: --extra=--rocm-path=/usr")
    options = parser.parse_args(argv)
    drivers = {name: DRIVERS[name] for name in options.driver or DRIVERS}
    if options.compiler:
        package = options.compiler.replace("++", "")
        drivers = {"other": Driver(f"{package}'s own", options.compiler, package, tuple(options.extra.split()))}

    def measure(directory: Path) -> tuple[Mapping[str, object], str]:
        rows = []
        for name, driver in drivers.items():
            (directory / name).mkdir()
            rows += Links(directory / name, driver).measure(options.rounds)
        found = {"rounds": options.rounds, "links": [asdict(row) for row in rows]}
        return found, render(rows, options.rounds)

    return page.write("link", options.out, measure)


class Links:
    """A program of all sources of the workload, for eight architectures."""

    def __init__(self, directory: Path, driver: Driver) -> None:
        self._directory = directory
        self._driver = driver
        self._compiler = find_program(driver.compiler, f"install the package '{driver.package}'")
        env = base_environment(os.environ)
        self._plain = Tool(directory / "tools" / "plain", env)
        self._hipcache = Hipcache(directory / "tools" / "hipcache", env)
        self._words = [*WORKLOAD.flags, "-fgpu-rdc", *driver.flags]
        self._words += [f"--offload-arch={arch}" for arch in DEBIAN_ARCHS.many]

    def measure(self, rounds: int) -> list[Row]:
        edits = dict.fromkeys(LINKS[name][0] for name in self._driver.links)
        objects = {edit: self._compile(edit) for edit in edits}
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in self._driver.links}
        for number in range(rounds):
            say(f"links, {self._driver.title}: round {number + 1} of {rounds}")
            self._hipcache.reset()
            # Plain clang's work is the same, whatever has changed.
            plain = {edit: self._link(self._plain, objects[edit]) for edit in objects}
            for name in self._driver.links:
                edit = LINKS[name][0]
                mine = self._link(self._hipcache, objects[edit])
                if mine[1] != plain[edit][1]:
                    raise BenchError(f"hipcache's program ({name}) is not plain clang's", "report this as a bug")
                seconds[name].append((plain[edit][0], mine[0]))
        return [
            Row(
                self._driver.title,
                name,
                statistics.median(plain for plain, _ in times),
                statistics.median(mine for _, mine in times),
                statistics.median(mine / plain for plain, mine in times),
                LINKS[name][1],
            )
            for name, times in seconds.items()
        ]

    def _compile(self, edit: str) -> list[str]:
        """The objects with this edit in one source."""
        say(f"objects, {self._driver.title}{f', after the edit {edit!r}' if edit else ''}")
        # Always the same files: the new driver's objects have no CUID, so names in them hold their sources' inodes.
        place = self._directory / "sources"
        WORKLOAD.prepare(place)
        (place / "main.hip").write_text(MAIN)
        (place / EDITED).write_text(edited((place / EDITED).read_text(), edit))
        objects = []
        for source in (*WORKLOAD.sources, "main.hip"):
            made = self._directory / f"objects-{edit if source == EDITED else ''}" / f"{source}.o"
            made.parent.mkdir(exist_ok=True)
            if not edit or source == EDITED:
                words = [self._compiler, *self._words, f"-cuid={source}", "-x", "hip", "-c", source, "-o", str(made)]
                timed(words, cwd=place, env=self._plain.environment(), log=self._directory / "log")
            objects.append(str(made))
        return objects

    def _link(self, tool: Tool, objects: Sequence[str]) -> tuple[float, bytes]:
        """Seconds, and the program."""
        program = self._directory / "program"
        program.unlink(missing_ok=True)
        words = [*tool.launcher(), self._compiler, *self._words, "--hip-link", *objects, "-o", str(program)]
        took = timed(words, cwd=self._directory, env=tool.environment(), log=self._directory / "log")
        return took.wall, program.read_bytes()


def render(rows: Sequence[Row], rounds: int) -> str:
    """The table."""
    sources, archs = len(WORKLOAD.sources), len(DEBIAN_ARCHS.many)
    lines = [f"# Links of relocatable device code\n\n{sources} sources, {archs} architectures; seconds, medians of"]
    lines[0] += f" {rounds} rounds\n"
    head = ("driver", "link", "plain clang", "hipcache", "hipcache / plain", "at most", "")
    cells = []
    for row in rows:
        seconds = f"{row.plain:.2f}", f"{row.hipcache:.2f}", f"{row.ratio:.2f}"
        cells.append((row.driver, row.link, *seconds, *page.checked(row.ratio, row.limit)))
    return "\n".join([*lines, *page.table(head, cells)]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
