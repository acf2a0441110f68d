"""The builds of the demo, with hipcache or without, and what its statistics and objects say of them."""

from __future__ import annotations

import json
import re
import resource
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hip_toolchain import hips_own

CHECKOUT = Path(__file__).resolve().parent.parent
PROGRAMS = CHECKOUT / ".venv" / "bin"


@dataclass(frozen=True)
class Tally:
    """How many of something were served from the store, and how many had to be compiled."""

    hits: int = 0
    misses: int = 0

    def __str__(self) -> str:
        return f"{self.hits} / {self.misses}" if self.hits or self.misses else "-"


@dataclass(frozen=True)
class Counters:
    """What one build did, from `hipcache stats --json` before and after it."""

    arches: dict[str, Tally]
    host: Tally
    backend: Tally
    uncached: int  # compiles that were passed through or failed


class BuildFailed(Exception):
    """A configure or build step failed; the text is what it printed."""


@dataclass
class Build:
    """One build directory of the example, with hipcache or without."""

    name: str
    source: Path
    directory: Path
    environ: dict[str, str]
    options: tuple[str, ...]

    def configure(self, arches: tuple[str, ...]) -> None:
        command = [str(PROGRAMS / "cmake"), "-S", str(self.source), "-B", str(self.directory), "-G", "Ninja"]
        command += [f"-DCMAKE_MAKE_PROGRAM={PROGRAMS / 'ninja'}", f"-DCMAKE_HIP_ARCHITECTURES={';'.join(arches)}"]
        # Debian 13's clang takes /usr/local for HIP's root.
        command += ["--toolchain", str(CHECKOUT / "cmake" / "HipToolchain.cmake")]
        command += [f"-DCMAKE_HIP_COMPILER={hips_own().compiler}", "-DCMAKE_HIP_PLATFORM=amd", *self.options]
        done = subprocess.run(
            command, env=self.environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        if done.returncode:
            raise BuildFailed(done.stdout)

    def build(self, progress: Callable[[float], None]) -> float:
        """Run ninja; the processor seconds of all that it started."""
        command = [str(PROGRAMS / "ninja"), "-C", str(self.directory), "--verbose"]
        environ = self.environ | {"NINJA_STATUS": "[%f/%t] "}
        output = []
        begun = _used()
        with subprocess.Popen(
            command, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            assert process.stdout
            try:
                for line in process.stdout:
                    output.append(line)
                    if at := re.match(r"\[(\d+)/(\d+)\]", line):
                        progress(int(at[1]) / int(at[2]))
            except BaseException:
                process.terminate()  # ninja ends its compilers
                raise
        seconds = _used() - begun
        if process.returncode:
            raise BuildFailed("".join(output))
        return seconds


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def clean(source: Path, build: Path) -> None:
    subprocess.run([str(PROGRAMS / "ninja"), "-C", str(build), "-t", "clean"], stdout=subprocess.DEVNULL, check=True)


def read_statistics(environ: dict[str, str]) -> Counters:
    done = subprocess.run(
        [str(PROGRAMS / "hipcache"), "stats", "--json"], env=environ, text=True, stdout=subprocess.PIPE, check=True
    )
    document = json.loads(done.stdout)
    units = {name: Tally(count["hits"], count["misses"]) for name, count in document["units"].items()}
    backend = document["jobs"]["backend"]
    return Counters(
        arches={name: tally for name, tally in units.items() if name not in ("host", "link")},
        host=units.get("host", Tally()),
        backend=Tally(backend["hits"], backend["misses"]),
        uncached=document["compiles"]["passed_through"] + document["compiles"]["failed"],
    )


def difference(after: Counters, before: Counters) -> Counters:
    def minus(a: Tally, b: Tally) -> Tally:
        return Tally(a.hits - b.hits, a.misses - b.misses)

    return Counters(
        arches={name: minus(tally, before.arches.get(name, Tally())) for name, tally in after.arches.items()},
        host=minus(after.host, before.host),
        backend=minus(after.backend, before.backend),
        uncached=after.uncached - before.uncached,
    )


def compare(cached: Path, plain: Path) -> tuple[int, list[str]]:
    """How many HIP objects there are, and which of them differ between the two build directories."""
    objects = sorted(path.relative_to(plain) for path in plain.rglob("*.hip.o"))
    differing = [
        str(path)
        for path in objects
        if not (cached / path).is_file() or (cached / path).read_bytes() != (plain / path).read_bytes()
    ]
    return len(objects), differing
