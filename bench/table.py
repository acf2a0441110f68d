"""The tables of `run.py`: seconds over plain clang's, what became of the compiles, the stores."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

import page
from rows import Row
from series import PLAIN, Sample
from tool import TOOLS
from workload import Architectures

CCACHE, HIPCACHE = "ccache", "hipcache"
Seconds = Callable[[Sample], float]


def cpu(sample: Sample) -> float:
    return sample.cpu


def wall(sample: Sample) -> float:
    return sample.wall


def render(
    rows: Sequence[Row],
    samples: Sequence[Sample],
    about: Mapping[str, str],
    versions: Mapping[str, str],
    sources: Mapping[str, Sequence[str]],
    archs: Architectures,
) -> str:
    """The page."""
    taken = {
        (row.name, tool): [s for s in samples if (s.row, s.tool) == (row.name, tool)]
        for row in rows
        for tool in versions
    }
    others = sum(sample.others for sample in samples) / (sum(sample.wall for sample in samples) or 1)
    lines = ["# Programs that others wrote", ""]
    lines += [f"- {name}: {value}" for name, value in (*about.items(), *versions.items())]
    lines += [f"- architectures: {' '.join(archs.base)}; added: {archs.added}; many: {' '.join(archs.many)}"]
    lines += [f"- other programs took {others:.2f} of a core while builds were measured"]
    lines += ["", "CPU seconds (by the clock) of plain clang; of the others the share of it.", ""]
    caches = [tool for tool in versions if tool != PLAIN]
    head = ("", *(TOOLS[tool].title for tool in versions), "hipcache at most", "", "objects")
    lines += page.table(head, [_times(row, taken, caches) for row in rows])
    lines += ["", "What became of the compiles.", ""]
    outcomes = [(row.title, *(_outcome(taken[row.name, tool]) for tool in caches)) for row in rows]
    lines += page.table(("", *caches), outcomes)
    lines += ["", "The store after it: MB on the disk, files, MB of a tar archive of it (what it is of ccache's).", ""]
    stores = [
        (row.title, *(_store(taken[row.name, tool], taken.get((row.name, CCACHE), [])) for tool in caches))
        for row in rows
    ]
    lines += page.table(("", *caches), stores)
    for name, chosen in sources.items():
        lines += ["", f"{name}: {', '.join(chosen)}"]
    wrong = [f"- {s.row}, {s.tool}: {name} {how}" for s in samples for name, how in s.differing.items()]
    return "\n".join([*lines, *(["", "Objects that are not plain clang's:", "", *wrong] if wrong else [])]) + "\n"


Taken = Mapping[tuple[str, str], Sequence[Sample]]


def _times(row: Row, taken: Taken, caches: Sequence[str]) -> tuple[str, ...]:
    """A line of the first table."""
    plain = taken.get((row.name, PLAIN)) or taken.get((row.same_as, PLAIN)) or []
    cells = [f"{_median(map(cpu, plain)):.2f} ({_median(map(wall, plain)):.2f})" if plain else ""]
    for tool in caches:
        mine = taken[row.name, tool]
        cells.append(f"{_share(mine, plain, cpu)} ({_share(mine, plain, wall)})" if mine and plain else "")
    measure = wall if row.wall else cpu
    ratio = share(taken.get((row.name, HIPCACHE), []), plain, measure)
    limit = f"{row.limit}{' (clock)' if row.wall else ''}" if row.limit else ""
    verdict = page.checked(ratio, row.limit)[1] if ratio is not None else ""
    compared = [sample for tool in caches for sample in taken[row.name, tool]]
    differing = sum(len(sample.differing) for sample in compared)
    objects = f"{differing} differ" if differing else "same" if any(sample.compared for sample in compared) else ""
    return (row.title, *cells, limit, verdict, objects)


def share(mine: Sequence[Sample], plain: Sequence[Sample], seconds: Seconds) -> float | None:
    """The median of the ratios within each round: a slow minute hits both partners."""
    partners = {sample.round: seconds(sample) for sample in plain}
    ratios = [seconds(one) / partners[one.round] for one in mine if partners.get(one.round)]
    return statistics.median(ratios) if ratios else None


def _share(mine: Sequence[Sample], plain: Sequence[Sample], seconds: Seconds) -> str:
    ratio = share(mine, plain, seconds)
    return "-" if ratio is None else f"{ratio:.3f}" if ratio < 0.1 else f"{ratio:.2f}"


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def _outcome(mine: Sequence[Sample]) -> str:
    return ", ".join(f"{count} {word}" for word, count in mine[-1].outcome.items()) if mine else ""


def _store(mine: Sequence[Sample], ccaches: Sequence[Sample]) -> str:
    if not mine:
        return ""
    size = mine[-1].store
    share = ""
    if ccaches and mine[-1].tool == HIPCACHE:
        other = ccaches[-1].store
        share = f" ({size.disk / other.disk:.2f}, {size.files / other.files:.2f}, {size.tar / other.tar:.2f})"
    beside = f" ({size.beside / 1e6:.1f} outside of it)" if size.beside > 1e6 else ""
    return f"{size.disk / 1e6:.2f}, {size.files}, {size.tar / 1e6:.2f}{share}{beside}"
