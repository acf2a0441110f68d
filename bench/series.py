"""The run itself: for each form, a state to start from is prepared, then rounds in which the tools take turns."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from build import Bench
from progress import Progress
from result import PLAIN, Sample
from scenario import Scenario, State, difference
from tool import Tool
from trouble import BenchError


@dataclass(frozen=True)
class Series:
    """What is measured, how often. The scenarios keep their order: some need the state that the cold build left."""

    bench: Bench
    forms: Sequence[str]
    tools: Sequence[Tool]
    scenarios: Sequence[Scenario]
    rounds: int

    def planned(self) -> int:
        """The number of builds, those for preparation included."""
        measured = sum(scenario.takes * len(self._builders(scenario)) for scenario in self.scenarios)
        return len(self.forms) * (self.rounds * measured + len(self._prepared()))

    def run(self, progress: Progress) -> list[Sample]:
        """All samples."""
        samples = []
        saved = self.bench.directory / "saved"
        for form in self.forms:
            self._prepare(form, saved, progress)
            for number in range(self.rounds):
                for scenario in self.scenarios:
                    self.bench.write_sources(scenario.edit)
                    for take in range(scenario.takes):
                        for tool in self._builders(scenario):
                            if scenario.state is State.EMPTY:
                                tool.reset()
                            elif scenario.state is State.MANY and tool.caches:
                                tool.restore(saved / tool.name)
                            samples.append(self._sample(form, scenario, tool, number, take, progress=progress))
            shutil.rmtree(saved, ignore_errors=True)
        return samples

    def _builders(self, scenario: Scenario) -> list[Tool]:
        """Who builds in a scenario: plain clang stays out where another scenario's time stands for it."""
        spared = scenario.plain_as in [other.name for other in self.scenarios]
        return [tool for tool in self.tools if not (tool.name == PLAIN and spared)]

    def _prepared(self) -> list[Tool]:
        """Who needs a store with a build for the large set."""
        needed = any(scenario.state is State.MANY for scenario in self.scenarios)
        return [tool for tool in self.tools if tool.caches] if needed else []

    def _prepare(self, form: str, saved: Path, progress: Progress) -> None:
        """Make those stores once; they are copied into place before each measured build."""
        archs = self.bench.workload.archs.many
        self.bench.write_sources("")
        for tool in self._prepared():
            what = f"{form} · prepare a store with {len(archs)} architectures · {tool.title}"
            progress.begin(what)
            tool.reset()
            times = self.bench.build(tool, form, archs)
            self.bench.inspect(tool, form, archs, "")
            tool.save(saved / tool.name)
            progress.end(what, times.wall)

    def _sample(
        self, form: str, scenario: Scenario, tool: Tool, number: int, take: int, *, progress: Progress
    ) -> Sample:
        """Build once; the sample is only worth something if the build did what the scenario means."""
        sets = self.bench.workload.archs
        archs = scenario.archs(sets)
        what = f"{form} · {scenario.heading(sets)} · {tool.title}"
        progress.begin(what)
        before = tool.counters()
        times = self.bench.build(tool, form, archs)
        counted = difference(before, tool.counters())
        self.bench.inspect(tool, form, archs, scenario.edit)
        wrong = tool.complaints(scenario, counted, len(self.bench.sources(form)), sets)
        if wrong:
            raise BenchError(
                f"'{what}' was not the build that it should be: {'; '.join(wrong)}",
                f"it counted {counted}; the figures would mean nothing, so the benchmark ends here",
            )
        progress.end(what, times.wall)
        return Sample(form, scenario.name, tool.name, number, take, times.wall, times.cpu, times.others, counted)
