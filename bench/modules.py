"""Measures IREE modules: hipcache beside plain iree-compile, one module after the other.

A network of many layers, each of another shape, becomes a module for each of four targets. In each round both build

    cold       all four, with an empty store
    unchanged  the same again
    one added  a fifth target beside the four

Each module that hipcache makes has to be plain iree-compile's, byte for byte.
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

LAYERS = 12
TARGETS = (("hip", "gfx942"), ("hip", "gfx90a"), ("hip", "gfx1100"), ("amdgpu", "gfx942"))
ADDED = ("amdgpu", "gfx90a")
#: What is built, and at most how much of the time of plain iree-compile it may take.
BUILDS: dict[str, tuple[tuple[tuple[str, str], ...], float | None]] = {
    "cold": (TARGETS, None),
    "unchanged": (TARGETS, 0.2),
    "one target added to 4": ((*TARGETS, ADDED), 0.4),
}


@dataclass(frozen=True)
class Row:
    """Seconds: medians."""

    build: str
    plain: float
    hipcache: float
    ratio: float
    limit: float | None


def program(layers: int) -> str:
    """Layers of their own shapes: a product of matrices, and a curve over it."""
    functions = []
    for number in range(layers):
        rows, inner, columns = 16 + 4 * number, 32 + 8 * number, 24 + 4 * number
        left, right, made = f"{rows}x{inner}xf32", f"{inner}x{columns}xf32", f"{rows}x{columns}xf32"
        functions.append(f"""\
func.func @layer{number}(%a: tensor<{left}>, %b: tensor<{right}>) -> tensor<{made}> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<{made}>
  %begin = linalg.fill ins(%zero : f32) outs(%empty : tensor<{made}>) -> tensor<{made}>
  %sum = linalg.matmul ins(%a, %b : tensor<{left}>, tensor<{right}>) outs(%begin : tensor<{made}>) -> tensor<{made}>
  %curve = math.tanh %sum : tensor<{made}>
  return %curve : tensor<{made}>
}}
""")
    return "".join(functions)


class Modules:
    """One program, built for targets one after the other."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._compiler = find_program("iree-compile", "pip install '.[iree]'")
        env = base_environment(os.environ)
        self._plain = Tool(directory / "tools" / "plain", env)
        self._hipcache = Hipcache(directory / "tools" / "hipcache", env)
        (directory / "network.mlir").write_text(program(LAYERS))

    def measure(self, rounds: int) -> list[Row]:
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in BUILDS}
        for number in range(rounds):
            say(f"modules: round {number + 1} of {rounds}")
            self._hipcache.reset()
            # Plain iree-compile's work for a target is the same in each build.
            plain = {target: self._build(self._plain, target) for target in (*TARGETS, ADDED)}
            for name, (targets, _) in BUILDS.items():
                mine = {target: self._build(self._hipcache, target) for target in targets}
                if any(mine[target][1] != plain[target][1] for target in targets):
                    raise BenchError(f"a module of hipcache ({name}) is not iree-compile's", "report this as a bug")
                seconds[name].append((sum(plain[one][0] for one in targets), sum(took for took, _ in mine.values())))
        return [
            Row(
                name,
                statistics.median(plain for plain, _ in times),
                statistics.median(mine for _, mine in times),
                statistics.median(mine / plain for plain, mine in times),
                BUILDS[name][1],
            )
            for name, times in seconds.items()
        ]

    def _build(self, tool: Tool, target: tuple[str, str]) -> tuple[float, bytes]:
        """Seconds, and the module."""
        device, arch = target
        made = self._directory / f"network.{device}.{arch}.vmfb"
        made.unlink(missing_ok=True)
        flags = (f"--iree-hal-target-device={device}", f"--iree-rocm-target={arch}")
        words = [*tool.launcher(), self._compiler, *flags, "network.mlir", "-o", str(made)]
        took = timed(words, cwd=self._directory, env=tool.environment(), log=self._directory / "log")
        return took.wall, made.read_bytes()


def render(rows: Sequence[Row], rounds: int) -> str:
    """The table."""
    lines = [f"# IREE modules\n\n{LAYERS} layers, {len(TARGETS)} targets; seconds, medians of {rounds} rounds\n"]
    head = ("build", "plain iree-compile", "hipcache", "hipcache / plain", "at most", "")
    cells = []
    for row in rows:
        seconds = f"{row.plain:.2f}", f"{row.hipcache:.2f}", f"{row.ratio:.2f}"
        cells.append((row.build, *seconds, *page.checked(row.ratio, row.limit)))
    return "\n".join([*lines, *page.table(head, cells)]) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    options = page.parser("modules", __doc__, rounds=3).parse_args(argv)

    def measure(directory: Path) -> tuple[Mapping[str, object], str]:
        rows = Modules(directory).measure(options.rounds)
        return {"rounds": options.rounds, "builds": [asdict(row) for row in rows]}, render(rows, options.rounds)

    return page.write("modules", options.out, measure)


if __name__ == "__main__":
    sys.exit(main())
