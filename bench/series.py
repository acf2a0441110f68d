"""The order of all builds: rounds of rows, in each of which the tools take turns; and what is noted of each build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from build import Bench, Objects
from page import say
from rows import Row
from tool import Size, Tool, difference
from trouble import BenchError

PLAIN = "plain"


@dataclass(frozen=True)
class Sample:
    """One measured build. `others`: CPU seconds of other programs meanwhile. `differing`: objects, and how."""

    row: str
    tool: str
    round: int
    wall: float
    cpu: float
    others: float
    outcome: dict[str, int]
    store: Size
    compared: int = 0
    differing: dict[str, str] = field(default_factory=dict)


class Series:
    """All rounds. Where a build fails, the next row goes on: minutes of measurements are not thrown away."""

    def __init__(
        self,
        benches: Mapping[str, Bench],
        tools: Sequence[Tool],
        rows: Sequence[Row],
        rounds: int,
        truth: dict[str, Objects],
    ) -> None:
        self._benches = benches
        self._tools = tools
        self._rows = rows
        self._rounds = rounds
        self._truth = truth  # plain clang's objects of each row
        self.failures: list[str] = []

    def run(self) -> list[Sample]:
        """All samples."""
        samples: list[Sample] = []
        for bench in self._benches.values():
            bench.prepare()
        for number in range(self._rounds):
            for row in self._rows:
                bench = self._benches[row.workload]
                spared = row.same_as in self._truth
                if spared:
                    self._truth[row.name] = self._truth[row.same_as]
                tools = [tool for tool in self._tools if not (spared and tool.name == PLAIN)]
                try:
                    if row.before:
                        self._fill(bench, row)
                    bench.write_sources(row)
                    for tool in tools:
                        samples += self._samples(bench, row, tool, number)
                except BenchError as error:
                    say(f"{row.title}: {error}")
                    self.failures.append(row.title)
        return samples

    def _fill(self, bench: Bench, row: Row) -> None:
        """The stores with a build of the project as it was, in its first place."""
        first = replace(row, place="project", edit="")
        bench.write_sources(first)
        for tool in self._tools:
            if tool.caches:
                tool.bases = bench.bases(first)
                tool.reset()
                say(f"{row.title}: filling the store of {tool.title}: {bench.build(tool, first).wall:.1f} s")

    def _samples(self, bench: Bench, row: Row, tool: Tool, number: int) -> list[Sample]:
        """A row's builds of a tool."""
        tool.bases = bench.bases(row)
        if row.empty and not row.before and tool.caches:
            tool.reset(headers=row.headers)
        if row.unpacked and tool.caches:
            tool.unpack()
        samples = []
        for _ in range(row.takes if tool.caches else 1):
            counted = tool.counters()
            times = bench.build(tool, row)
            outcome = tool.outcome(difference(counted, tool.counters()))
            say(f"{row.title}, {tool.title}: {times.wall:.2f} s, CPU {times.cpu:.2f} s")
            objects = bench.objects(tool, row)
            truth = self._truth.setdefault(row.name, objects) if tool.name == PLAIN else self._truth.get(row.name, {})
            plain = next((other for other in self._tools if other.name == PLAIN), None)
            differing = bench.differing(plain, row, objects, truth) if plain and truth else {}
            samples.append(
                Sample(
                    row.name,
                    tool.name,
                    number,
                    times.wall,
                    times.cpu,
                    times.others,
                    outcome,
                    tool.size(),
                    len(truth),
                    differing,
                )
            )
        return samples
