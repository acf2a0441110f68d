"""The order of all builds: rounds of rows, in each of which the tools take turns; and what is noted of each build."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from build import Bench, Objects
from measure import Times
from page import say
from rows import Row
from tool import Size, Tool, difference
from trouble import BenchError

PLAIN = "plain"
# Sources that each tool builds in its turn. At the end of a turn a core may be idle: few sources at once would flatter
# who compiles one of them on several cores.
_TOGETHER = 12


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
                    samples += self._samples(bench, row, tools, number)
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

    def _samples(self, bench: Bench, row: Row, tools: Sequence[Tool], number: int) -> list[Sample]:
        """A row's builds. Beside plain clang the tools take turns with some of the sources: a machine changes its speed
        within minutes, so two builds of all of them, one after the other, compare little."""
        for tool in tools:
            tool.bases = bench.bases(row)
            if row.empty and not row.before and tool.caches:
                tool.reset(headers=row.headers)
            if row.unpacked and tool.caches:
                tool.unpack()
        if any(tool.name == PLAIN for tool in tools):
            outputs = [one.output for one in bench.compiles(tools[0], row)]
            turns = [outputs[at : at + _TOGETHER] for at in range(0, len(outputs), _TOGETHER)]
            return self._taken(bench, row, tools, number, turns)
        return [
            sample
            for tool in tools
            for _ in range(row.takes)
            for sample in self._taken(bench, row, [tool], number, [[]])
        ]

    def _taken(
        self, bench: Bench, row: Row, tools: Sequence[Tool], number: int, turns: Sequence[Sequence[str]]
    ) -> list[Sample]:
        """A build by each tool. `turns`: outputs of each turn (none: all)."""
        counted = {tool.name: tool.counters() for tool in tools}
        times = {tool.name: Times(0, 0) for tool in tools}
        for turn in turns:
            for tool in tools:
                times[tool.name] += bench.build(tool, row, turn, empty=turn is turns[0])
        samples = []
        for tool in tools:
            taken = times[tool.name]
            outcome = tool.outcome(difference(counted[tool.name], tool.counters()))
            say(f"{row.title}, {tool.title}: {taken.wall:.2f} s, CPU {taken.cpu:.2f} s")
            objects = bench.objects(tool, row)
            truth = self._truth.setdefault(row.name, objects) if tool.name == PLAIN else self._truth.get(row.name, {})
            plain = next((other for other in self._tools if other.name == PLAIN), None)
            differing = bench.differing(plain, row, objects, truth) if plain and truth else {}
            samples.append(
                Sample(
                    row.name,
                    tool.name,
                    number,
                    taken.wall,
                    taken.cpu,
                    taken.others,
                    outcome,
                    tool.size(),
                    len(truth),
                    differing,
                )
            )
        return samples
