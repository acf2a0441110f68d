"""Simulates cold builds whose back ends run on workers elsewhere, with recorded durations: how many workers are of use.

No compiler runs, and no worker. What may begin, and when, follows from the engine's own graph (`model.Progress`,
`model.Turns`). Where an action runs is the rule of `execution/remote`, written down once more here, as that one waits
in threads: here while a slot is free, else there while a worker is; whoever waits longest is the first. An action there
costs ROUND_TRIPS more (its inputs, Execute, its output). Not in it: the bytes, the engine's own time, the linker of the
host, and that a compiler runs slower beside others.
"""

from __future__ import annotations

import argparse
import heapq
import json
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import page
from hipcache.model import Action, ActionResult, End, Function, Graph, Output, Policy, Progress, Turns

RESULTS = Path(__file__).resolve().parent / "results"
WORKERS = (0, 1, 2, 4, 8, 16, 32, 64)
ROUND_TRIPS = 3
ARCHS = 10
WANTED = 0.8
_WORK = Function(lambda inputs: {})
_HERE, _THERE = Policy(), Policy(remote=True)
_ABOUT = """\
No compiler has run for these figures: `bench/simulate.py` has simulated them, with durations of steps that were
recorded on one machine (`durations.json`).

The machine that builds has {cores} cores, each worker one, {delay:.0f} ms away; an action there takes {turns} round
trips. Nothing is in the store. Not in it: the bytes on the way, the engine's own time, that compilers slow each other
down. Recorded are four rocPRIM sources, each for one to three architectures: these stand for all.

Efficiency: CPU seconds of the compilers over those that all cores had, here and there. Of the possible: the least time
that any order could take (all work over all cores; front ends and host passes over the cores here; the longest chain)
over the time.
"""


@dataclass(frozen=True)
class Source:
    """Seconds of the steps of its compile; `archs`: of front end, back end and device link for each."""

    host: float
    archs: Mapping[str, tuple[float, float, float]]

    def actions(self) -> Iterator[tuple[Action, float]]:
        """As `planners/device_code` and `planners/source` have them, with their seconds."""
        yield Action("host", "host", "host", _WORK, policy=_HERE), self.host
        for arch, (front, back, link) in self.archs.items():
            yield Action(f"{arch} front", "front end", arch, _WORK, policy=_HERE), front
            bitcode = ((f"{arch}.bc", Output(f"{arch} front", "output")),)
            yield Action(f"{arch} back", "back end", arch, _WORK, inputs=bitcode, policy=_THERE), back
            code = ((f"{arch}.o", Output(f"{arch} back", "output")),)
            yield Action(f"{arch} link", "device link", arch, _WORK, inputs=code, policy=_THERE), link

    @property
    def seconds(self) -> float:
        return sum(seconds for _, seconds in self.actions())

    @property
    def seconds_here(self) -> float:
        return sum(seconds for action, seconds in self.actions() if not action.policy.remote)


class Compile:
    """One command under way."""

    def __init__(self, source: Source) -> None:
        actions = list(source.actions())
        self.seconds = {action.id: seconds for action, seconds in actions}
        graph = Graph(tuple(action for action, _ in actions), (), (), "")
        self.progress, self._turns = Progress(graph, {}), Turns(graph.gate)

    def take(self) -> list[End]:
        """What may begin now: all of it is looked up in vain."""
        for bound in self.progress.take_ready():
            end = End.looked_up(bound, None)
            assert end.is_to_run
            self._turns.add(end.bound)
        return [End.looked_up(bound, None) for bound in self._turns.take()]

    def finish(self, end: End) -> bool:
        """Was it the last one?"""
        self._turns.end(end.bound.action)
        self.progress.finish(End.looked_up(end.bound, ActionResult({}, "", 0.0)))
        return not self.progress.unfinished


@dataclass
class Machine:
    """`here` slots, `there` workers that are `delay` seconds away; ninja -j `jobs` over the commands."""

    here: int
    there: int
    delay: float
    jobs: int
    now: float = 0.0
    _waiting: deque[tuple[Compile, End]] = field(default_factory=deque)
    _running: list[tuple[float, int, bool, Compile, End]] = field(default_factory=list)
    _number: int = 0

    def build(self, sources: Sequence[Source]) -> float:
        """Seconds."""
        commands = deque(map(Compile, sources))
        for _ in range(min(self.jobs, len(commands))):
            self._begin(commands.popleft())
        self._place()
        while self._running:
            self.now, _, is_here, one, end = heapq.heappop(self._running)
            self.here, self.there = self.here + is_here, self.there + (not is_here)
            if not one.finish(end):
                self._begin(one)
            elif commands:
                self._begin(commands.popleft())
            self._place()
        return self.now

    def _begin(self, one: Compile) -> None:
        self._waiting.extend((one, end) for end in one.take())

    def _place(self) -> None:
        left: deque[tuple[Compile, End]] = deque()
        while self._waiting and (self.here or self.there):
            one, end = self._waiting.popleft()
            is_here = self.here > 0
            if not is_here and not end.bound.action.policy.remote:
                left.append((one, end))
                continue
            self.here, self.there = self.here - is_here, self.there - (not is_here)
            away = 0.0 if is_here else ROUND_TRIPS * self.delay
            self._number += 1
            at = self.now + away + one.seconds[end.bound.action.id]
            heapq.heappush(self._running, (at, self._number, is_here, one, end))
        self._waiting.extendleft(reversed(left))


@dataclass(frozen=True)
class Run:
    """`efficiency`: of all cores, here and there; `possible`: the time of a build that no order could make shorter (all
    work over all cores; what must be here over those here; the longest chain), over the time."""

    workers: int
    seconds: float
    efficiency: float
    possible: float


def simulate(sources: Sequence[Source], here: int, workers: int, delay: float) -> Run:
    seconds = Machine(here, workers, delay, jobs=here + workers).build(sources)
    work, at_home = sum(one.seconds for one in sources), sum(one.seconds_here for one in sources)
    chain = max(max(one.host, *map(sum, one.archs.values())) for one in sources)
    least = max(work / (here + workers), at_home / here, chain)
    return Run(workers, seconds, work / ((here + workers) * seconds), least / seconds)


def recorded(path: Path) -> dict[str, Source]:
    found = json.loads(path.read_text())["sources"]
    return {
        name: Source(one["host"], {arch: (steps[0], steps[1], steps[2]) for arch, steps in one["archs"].items()})
        for name, one in found.items()
    }


def builds(known: Mapping[str, Source], count: int, archs: int = ARCHS) -> dict[str, list[Source]]:
    """For more archs than were recorded these stand again and again."""
    stretched = []
    for one in known.values():
        steps = list(one.archs.values())
        stretched.append(Source(one.host, {f"arch {number}": steps[number % len(steps)] for number in range(archs)}))
    largest = max(stretched, key=lambda one: one.seconds)
    many = [stretched[number % len(stretched)] for number in range(count)]
    return {f"One source, {archs} architectures": [largest], f"{count} sources, {archs} architectures": many}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench/simulate.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--durations", type=Path, default=RESULTS / "durations.json", help="seconds of steps, recorded")
    parser.add_argument("--out", type=Path, default=page.OUT, help="where results go (default: build/bench)")
    parser.add_argument("--sources", type=int, default=200, help="of the larger build (default: 200)")
    parser.add_argument("--cores", type=int, default=8, help="of the machine that builds (default: 8)")
    parser.add_argument("--delay", type=float, default=20.0, help="milliseconds of a round trip (default: 20)")
    options = parser.parse_args(argv)
    found = {
        name: [simulate(sources, options.cores, workers, options.delay / 1000) for workers in WORKERS]
        for name, sources in builds(recorded(options.durations), options.sources).items()
    }
    text = render(found, options)
    rows = {name: [vars(run) for run in runs] for name, runs in found.items()}
    about = {"simulation": True, "cores": options.cores, "delay": options.delay, "builds": rows}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "workers.json").write_text(json.dumps(about, indent=1) + "\n")
    (options.out / "workers.md").write_text(text)
    print(text)
    return 0


def render(found: Mapping[str, Sequence[Run]], options: argparse.Namespace) -> str:
    lines = [
        "# Back ends on 0 to 64 workers: a simulation",
        "",
        *_ABOUT.format(cores=options.cores, delay=options.delay, turns=ROUND_TRIPS).splitlines(),
    ]
    for name, runs in found.items():
        lines += ["", f"## {name}", ""]
        rows = [
            [str(run.workers), f"{run.seconds:.1f}", f"{run.efficiency:.2f}", f"{run.possible:.2f}"] for run in runs
        ]
        lines += page.table(["workers", "seconds", "efficiency", "of the possible"], rows)
        good = [run.workers for run in runs if run.efficiency >= WANTED]
        lines += ["", f"Efficiency is at least {WANTED} for {_listed(good)} workers."]
    return "\n".join([*lines, ""])


def _listed(good: Sequence[int]) -> str:
    return ", ".join(map(str, good)) or "none of these numbers of"


if __name__ == "__main__":
    sys.exit(main())
