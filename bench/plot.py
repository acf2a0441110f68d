"""The picture of a run: bars by scenario for each form, on a logarithmic scale, as PNG and SVG."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path

from report import form_title, ratio, seconds
from result import PLAIN, Result
from tool import TITLES

COLOURS = {
    "plain": "#9a9a9a",
    "ccache": "#e0a458",
    "sccache": "#5b8db8",
    "hipcache": "#c0392b",
}
BAR = 0.21


def available() -> bool:
    """Is matplotlib installed? It comes with the project's `bench` extra, and is used for nothing else."""
    return importlib.util.find_spec("matplotlib") is not None


def draw(result: Result, stem: Path) -> list[Path]:
    """Write `stem`.png and `stem`.svg. Plain clang's bars carry their time, the others' the ratio to it."""
    # Loaded by name: types are checked also where matplotlib is not installed.
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    matplotlib.rcParams.update(
        {"font.family": "DejaVu Sans", "font.size": 9, "svg.hashsalt": "hipcache", "svg.fonttype": "none"}
    )
    pyplot = importlib.import_module("matplotlib.pyplot")
    ticker = importlib.import_module("matplotlib.ticker")

    forms = result.forms
    figure, grid = pyplot.subplots(len(forms), 1, figsize=(12, 4.1 * len(forms) + 0.6), squeeze=False)
    for form, (axes,) in zip(forms, grid, strict=True):
        scenarios = result.scenarios(form)
        for place, tool in enumerate(result.tools):
            for group, scenario in enumerate(scenarios):
                wall = result.time(form, scenario.name, tool)
                if wall is None:
                    continue
                left = group + (place - (len(result.tools) - 1) / 2) * BAR
                label = TITLES[tool] if group == 0 else None
                axes.bar(left, wall, BAR * 0.92, color=COLOURS[tool], label=label, zorder=2)
                share = result.ratio(form, scenario.name, tool, PLAIN)
                text = _short(wall) if tool == PLAIN or share is None else ratio(share)
                weight = "bold" if tool == "hipcache" else "normal"
                axes.annotate(
                    text, (left, wall), (0, 2), textcoords="offset points", ha="center", fontsize=6.5, fontweight=weight
                )
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.set_ylim(low / 1.5, high * 1.8)
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _short(value)))
        axes.set_xticks(range(len(scenarios)))
        axes.set_xticklabels([_wrapped(scenario.heading(result.workload.archs)) for scenario in scenarios])
        axes.set_title(form_title(result, form), loc="left", fontsize=10, fontweight="bold")
        axes.grid(axis="y", color="#e4e4e4", zorder=0)
        axes.tick_params(which="both", length=0)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper right", ncols=len(labels), frameon=False)
    scale = "Time of a build, logarithmic; above the bars: plain clang's time, the others' ratio to it"
    about = f"{scale}\n{result.machine.cpu}, {result.date[:10]}"
    figure.text(0.012, 0.988, about, va="top", fontsize=8, color="#555555")
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    written = [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    figure.savefig(written[0], dpi=150)
    # No date inside: the same figures give the same file.
    figure.savefig(written[1], metadata={"Date": None})
    pyplot.close(figure)
    return written


def _short(value: float) -> str:
    return seconds(value).replace(".0 s", " s")


def _wrapped(text: str, width: int = 18) -> str:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)
