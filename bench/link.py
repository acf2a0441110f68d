"""Measures links of relocatable device code (-fgpu-rdc): hipcache beside plain clang.

ccache and sccache cache no links.

The objects are made by plain clang before, and not measured. In each round the tools link

    cold       with an empty store
    unchanged  the same objects again
    host       after an edit of host code in one source
    one arch   after an edit in one architecture's #if of one source

Each program that hipcache links has to be plain clang's, byte for byte.

With clang 19: clang 15 notes the kernels that host code uses in the order of their addresses in memory, so that two
objects of one source may differ, and an edit of host code may change device code.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import machine
from measure import timed
from tool import Hipcache, Tool, base_environment, find_program
from trouble import BenchError
from workload import DEBIAN_ARCHS, DEVICE_IF, HOST, WORKLOADS

OUT = Path(__file__).resolve().parent.parent / "build" / "bench"
WORKLOAD = WORKLOADS["rocprim"]
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
class Row:
    """Seconds, medians of all rounds; `ratio`: the median of the rounds' ratios."""

    link: str
    plain: float
    hipcache: float
    ratio: float
    limit: float | None


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench/link.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="rounds in which each tool has its turn (default: 3)")
    parser.add_argument("--compiler", default="clang++-19", help="the compiler (default: clang++-19)")
    parser.add_argument("--new-driver", action="store_true", help="compile and link with --offload-new-driver")
    parser.add_argument("--out", type=Path, default=OUT, help="where results go (default: build/bench)")
    options = parser.parse_args(argv)
    directory = Path(tempfile.mkdtemp(prefix="hipcache-bench-"))
    try:
        about = machine.describe(machine.keep_to(2))
        rows = Links(directory, options.compiler, new_driver=options.new_driver).measure(options.rounds)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    options.out.mkdir(parents=True, exist_ok=True)
    data = {"machine": asdict(about), "rounds": options.rounds, "links": [asdict(row) for row in rows]}
    (options.out / "link.json").write_text(json.dumps(data, indent=1) + "\n")
    text = render(rows, options.rounds)
    (options.out / "link.md").write_text(text)
    print(f"\n{text}\nwritten: {options.out / 'link.json'}, link.md")
    return 0


class Links:
    """A program of all sources of the workload, for eight architectures."""

    def __init__(self, directory: Path, compiler: str, *, new_driver: bool = False) -> None:
        self._directory = directory
        self._compiler = find_program(compiler, "install the package 'clang-19', or name one with --compiler")
        env = base_environment(os.environ)
        self._plain = Tool(directory / "tools" / "plain", env)
        self._hipcache = Hipcache(directory / "tools" / "hipcache", env)
        rdc = ["-fgpu-rdc", "--offload-new-driver"] if new_driver else ["-fgpu-rdc"]
        self._words = [*WORKLOAD.flags, *rdc, *(f"--offload-arch={arch}" for arch in DEBIAN_ARCHS.many)]

    def measure(self, rounds: int) -> list[Row]:
        objects = {edit: self._compile(edit) for edit in dict.fromkeys(edit for edit, _ in LINKS.values())}
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in LINKS}
        for number in range(rounds):
            say(f"links: round {number + 1} of {rounds}")
            self._hipcache.reset()
            # Plain clang's work is the same, whatever has changed.
            plain = {edit: self._link(self._plain, objects[edit]) for edit in objects}
            for name, (edit, _) in LINKS.items():
                mine = self._link(self._hipcache, objects[edit])
                if mine[1] != plain[edit][1]:
                    raise BenchError(f"hipcache's program ({name}) is not plain clang's", "report this as a bug")
                seconds[name].append((plain[edit][0], mine[0]))
        return [
            Row(
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
        say(f"objects{f' after the edit {edit!r}' if edit else ''}")
        # Always the same files: the new driver's objects have no CUID, so names in them hold their sources' inodes.
        place = self._directory / "sources"
        WORKLOAD.prepare(place)
        (place / "main.hip").write_text(MAIN)
        for one in WORKLOAD.edits.get(edit, ()):
            if one.file == EDITED:
                (place / EDITED).write_text(one.apply((place / EDITED).read_text()))
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
    lines += ["| link | plain clang | hipcache | hipcache / plain | at most | |", "|---|---|---|---|---|---|"]
    for row in rows:
        verdict = "" if row.limit is None else "ok" if row.ratio <= row.limit else "MISSED"
        limit = "" if row.limit is None else f"{row.limit}"
        lines.append(f"| {row.link} | {row.plain:.2f} | {row.hipcache:.2f} | {row.ratio:.2f} | {limit} | {verdict} |")
    return "\n".join(lines) + "\n"


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
