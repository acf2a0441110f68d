"""What a run leaves behind: every sample, and where they come from; and the arithmetic over samples.

The file is JSON, `format` 1:

    {"format": 1, "date": "...", "quick": false, "rounds": 3,
     "machine": {"cpu": "...", "cores": 2, "cores_used": 2, "memory_gib": 23, "system": "...", "load_before": 0.1},
     "workload": {"name": "...", "about": "...", "sources": [...], "alone": "...", "flags": [...],
                  "base": [...], "many": [...], "added": "...", "edited": "..."},
     "versions": {"plain": "...", "ccache": "...", ...},
     "samples": [{"form", "scenario", "tool", "round", "take", "wall", "cpu", "others", "counted": {...}}, ...]}

`wall`, `cpu` and `others` are seconds, the last of CPU time of other programs meanwhile; `counted` is how far
the tool's own counters moved.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from scenario import SCENARIOS, Scenario
from trouble import BenchError
from workload import Architectures, Workload

FORMAT = 1
PLAIN = "plain"


@dataclass(frozen=True)
class Sample:
    """One measured build."""

    form: str
    scenario: str
    tool: str
    round: int
    take: int
    wall: float
    cpu: float
    others: float = 0.0
    counted: dict[str, int] = field(default_factory=dict)


#: Which seconds of a sample.
Measure = Callable[[Sample], float]
WALL: Measure = attrgetter("wall")
CPU: Measure = attrgetter("cpu")


@dataclass(frozen=True)
class Machine:
    """What the figures were measured on. `cores_used` is the number that the benchmark kept itself to."""

    cpu: str
    cores: int
    cores_used: int
    memory_gib: int
    system: str
    load_before: float


@dataclass(frozen=True)
class Subject:
    """The workload in the result: what a reader needs to compare two runs."""

    name: str
    about: str
    sources: tuple[str, ...]
    alone: str
    flags: tuple[str, ...]
    base: tuple[str, ...]
    many: tuple[str, ...]
    added: str
    edited: str

    @classmethod
    def of(cls, workload: Workload) -> Subject:
        """The workload's description."""
        sets = asdict(workload.archs)
        return cls(workload.name, workload.about, workload.sources, workload.alone, workload.flags, **sets)

    @property
    def archs(self) -> Architectures:
        """The architecture sets."""
        return Architectures(self.base, self.many, self.added, self.edited)


@dataclass(frozen=True)
class Result:
    """A run."""

    date: str
    quick: bool
    rounds: int
    machine: Machine
    workload: Subject
    versions: dict[str, str]
    samples: tuple[Sample, ...]

    def to_json(self) -> str:
        """The file's text."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def load(cls, path: Path) -> Result:
        """A file that `to_json` made."""
        try:
            told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if told.pop("format") != FORMAT:
                raise BenchError(f"'{path}' has another format than {FORMAT}", "measure again")
            subject: dict[str, Any] = {
                key: tuple(value) if isinstance(value, list) else value for key, value in told["workload"].items()
            }
            return cls(
                **{
                    **told,
                    "machine": Machine(**told["machine"]),
                    "workload": Subject(**subject),
                    "samples": tuple(Sample(**sample) for sample in told["samples"]),
                }
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BenchError(f"'{path}' is not a result of this benchmark: {error}", "measure again") from error

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that took part, in their order."""
        return tuple(self.versions)

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms that were measured."""
        return tuple(dict.fromkeys(sample.form for sample in self.samples))

    def scenarios(self, form: str) -> list[Scenario]:
        """The scenarios that were measured in that form."""
        present = {sample.scenario for sample in self.samples if sample.form == form}
        return [scenario for scenario in SCENARIOS if scenario.name in present]

    @property
    def disturbance(self) -> float:
        """The share of the cores' time that other programs took while builds were measured."""
        time = sum(sample.wall for sample in self.samples) * self.machine.cores
        return sum(sample.others for sample in self.samples) / time if time else 0.0

    def of(self, form: str, scenario: str, tool: str) -> list[Sample]:
        """A tool's samples of a scenario; plain clang's may come from the scenario that stands in (`plain_as`)."""
        names = [scenario]
        if tool == PLAIN:
            names += [known.plain_as for known in SCENARIOS if known.name == scenario and known.plain_as]
        for name in names:
            found = [s for s in self.samples if (s.form, s.scenario, s.tool) == (form, name, tool)]
            if found:
                return found
        return []

    def time(self, form: str, scenario: str, tool: str, measure: Measure = WALL) -> float | None:
        """The median of the tool's seconds."""
        return median(measure(sample) for sample in self.of(form, scenario, tool))

    def ratio(self, form: str, scenario: str, tool: str, against: str, measure: Measure = WALL) -> float | None:
        """The median of the ratios pair by pair: each build over the other tool's build of the same turn."""
        return median(paired_ratios(self.of(form, scenario, tool), self.of(form, scenario, against), measure))


def median(values: Iterable[float]) -> float | None:
    """The median, or None of nothing."""
    known = list(values)
    return statistics.median(known) if known else None


def paired_ratios(samples: Sequence[Sample], others: Sequence[Sample], measure: Measure = WALL) -> list[float]:
    """A build's seconds over the other's, for builds of the same round and take.

    The machine is faster in one minute than in the next; builds of one turn are neighbours. Where the other
    has fewer takes in the round, its last one is the partner of the rest.
    """
    partners: dict[int, list[Sample]] = {}
    for other in others:
        partners.setdefault(other.round, []).append(other)
    ratios: list[float] = []
    for sample in samples:
        turn = partners.get(sample.round)
        if turn:
            partner = measure(turn[min(sample.take, len(turn) - 1)])
            # CPU time is counted in ticks: a build that took less than one has none.
            ratios += [measure(sample) / partner] if partner else []
    return ratios
