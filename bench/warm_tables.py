"""The tables of warm builds."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import page
from figures import Figures, shown
from floor import FLOOR


def render(found: Mapping[str, object], options: argparse.Namespace) -> str:
    """The tables."""
    ninja, single, phases, miss = (_figures(found, name) for name in ("ninja", "single", "phases", "miss"))
    lines = [f"# Warm builds\n\nmilliseconds, medians (least) of {options.rounds} rounds\n"]
    one, scons, share = found["large"], found["scons"], found["share"]
    assert isinstance(one, Figures)
    assert isinstance(scons, Figures)
    assert isinstance(share, dict)
    head = ("", f"{options.objects} objects under ninja", f"one source, {found['headers']} headers, 8 architectures")
    rows = [(tool, shown(ninja[tool]), shown(single[tool])) for tool in ninja]
    rows += [
        (f"hipcache, {options.entries} more entries", "", shown(one)),
        ("hipcache, in process", "", shown(scons)),
    ]
    lines += page.table(head, rows)
    best = min(ninja["ccache"].median, ninja["sccache"].median)
    ratios: list[tuple[str, float, float]] = [
        ("warm ninja build / only copying", ninja["hipcache"].median / ninja[FLOOR].median, 1.2),
        ("warm ninja build / the faster of ccache and sccache", ninja["hipcache"].median / best, 0.75),
        ("one warm compile / ccache", single["hipcache"].median / single["ccache"].median, 0.6),
        ("in process, ms per object", scons.median, 2.0),
        ("large store / small store", one.median / single["hipcache"].median, 1.1),
        ("own share of a miss, smallest kernel, wall ms", miss["wall"].median, 60),
        ("own CPU of a cold compile of sort.hip / plain clang's", share["sort.hip"][0] / share["sort.hip"][1], 0.02),
    ]
    checked = [(name, f"{value:.3f}", *page.checked(value, limit)) for name, value, limit in ratios]
    lines += ["", *page.table(("target", "is", "limit", ""), checked)]
    for title, figures in (("phase of one warm compile", phases), ("smallest kernel, compiled", miss)):
        lines += ["", *page.table((title, "ms"), [(name, shown(value)) for name, value in figures.items()])]
    shares = [(name, f"{own:.3f}", f"{plain:.2f}", f"{own / plain:.3f}") for name, (own, plain) in share.items()]
    cold = ("cold compile, 4 architectures", "hipcache's own CPU s", "plain clang's CPU s", "ratio")
    lines += ["", *page.table(cold, shares)]
    lines += ["\nThe first of these meets an empty store: it has to hash the tools, and to scan the headers."]
    return "\n".join(lines) + "\n"


def _figures(found: Mapping[str, object], name: str) -> dict[str, Figures]:
    value = found[name]
    assert isinstance(value, dict)
    return value
