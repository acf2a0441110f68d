"""The tables of a run, in markdown that is readable on a terminal too."""

from __future__ import annotations

from collections.abc import Sequence

from result import CPU, PLAIN, WALL, Measure, Result
from scenario import ALONE, NINJA
from target import targets_of, verdict
from tool import TITLES

#: Beyond this share of the cores' time, other programs spoil the figures.
QUIET = 0.05

FORM_TITLES = {
    NINJA: "All {count} sources under ninja, {cores} at once",
    ALONE: "One source alone ({alone})",
}


def render(result: Result) -> str:
    """The whole report."""
    parts = ["# hipcache beside plain clang, ccache and sccache", _origin(result)]
    for form in result.forms:
        parts += [f"## {form_title(result, form)}", _figures(result, form, WALL)]
    if "hipcache" in result.tools:
        parts += ["## Targets", _targets(result)]
    for form in result.forms:
        parts += [f"## CPU seconds: {form_title(result, form)}", _figures(result, form, CPU)]
    return "\n\n".join([*parts, _notes(result)]) + "\n"


def form_title(result: Result, form: str) -> str:
    """The heading of a form."""
    workload = result.workload
    return FORM_TITLES[form].format(count=len(workload.sources), cores=result.machine.cores_used, alone=workload.alone)


def seconds(value: float | None) -> str:
    """A time with as many digits as mean something."""
    if value is None:
        return "-"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def ratio(value: float | None) -> str:
    """A ratio: three digits for the small ones, where the third matters."""
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A markdown table with aligned columns; all but the first `left` columns hold numbers."""
    # At least two: markdown wants a dash before the colon that aligns to the right.
    widths = [max(2, *(len(row[column]) for row in (head, *rows))) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * width if column < left else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    return "\n".join([line(head), line(rule), *(line(row) for row in rows)])


def _origin(result: Result) -> str:
    machine, sets = result.machine, result.workload.archs
    lines = [
        f"- {result.date}, {machine.cpu}, {machine.cores_used} of {machine.cores} cores used, "
        f"{machine.memory_gib} GiB, {machine.system}, load {machine.load_before:.1f} before the start",
        *(f"- {TITLES[tool]}: {version}" for tool, version in result.versions.items()),
        f"- workload '{result.workload.name}': {', '.join(result.workload.sources)}; {result.workload.about}",
        f"- {len(sets.base)} architectures: {' '.join(sets.base)}; {len(sets.many)}: {' '.join(sets.many)}; "
        f"added: {sets.added}; edited: {sets.edited}",
        f"- medians of {result.rounds} round{'s' if result.rounds > 1 else ''}, in which the tools take turns; "
        "ratios are made pair by pair, then the median is taken",
    ]
    disturbance = f"- other programs took {result.disturbance:.0%} of the cores' time during the measured builds"
    noisy = ": the machine was not quiet, measure again" if result.disturbance > QUIET else ""
    lines.append(f"{disturbance}{noisy}")
    if result.quick:
        lines.append("- a quick run: light sources, one round. The targets are meant for a full one")
    return "\n".join(lines)


def _figures(result: Result, form: str, measure: Measure) -> str:
    others = [tool for tool in result.tools if tool != "hipcache"]
    compared = others if "hipcache" in result.tools else []
    head = ["scenario", *(TITLES[tool] for tool in result.tools), *(f"hipcache / {tool}" for tool in compared)]
    rows = [
        [
            scenario.heading(result.workload.archs),
            *(seconds(result.time(form, scenario.name, tool, measure)) for tool in result.tools),
            *(ratio(result.ratio(form, scenario.name, "hipcache", tool, measure)) for tool in compared),
        ]
        for scenario in result.scenarios(form)
    ]
    return table(head, rows)


def _targets(result: Result) -> str:
    titles = {
        scenario.name: scenario.heading(result.workload.archs) for f in result.forms for scenario in result.scenarios(f)
    }
    rows = []
    for target in targets_of(result):
        measured, outcome = verdict(target, result)
        rows.append(
            [
                titles.get(target.scenario, target.scenario),
                target.form,
                TITLES[target.tool],
                "CPU time" if target.measure is CPU else "time",
                TITLES[target.against],
                f"{target.limit:.2f}",
                ratio(measured),
                outcome.value,
            ]
        )
    return table(["scenario", "form", "the tool's", "time", "over that of", "at most", "measured", ""], rows, left=5)


def _notes(result: Result) -> str:
    notes = [
        "An edit changes every source of the form. Every build starts in an empty build directory.",
    ]
    if PLAIN in result.tools:
        notes.append(
            "Plain clang compiles everything whatever has changed, so it is measured once for equal work: its cold "
            "build stands for 'warm' and the subset, its host-only edit for the other edits."
        )
    if "sccache" in result.tools:
        notes.append("sccache compiles in its server; the server's CPU time is in the figures.")
    return "\n".join(notes)
