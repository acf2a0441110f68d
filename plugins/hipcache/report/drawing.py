"""The drawings of a report: SVG with classes, whose colours the page's style gives (light and dark)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape

from hipcache.report.build import lanes
from hipcache.report.outcome import HIT, MISS, PARTIAL, WORDS, counted
from hipcache.report.stats_log import Compile

_WIDTH, _LANE, _MARGIN = 1000, 18, 24
_LABEL = 80  # of the axis, the longest
# So many compiles have a text of their own for who points at them; more are drawn as one path for each outcome.
_EACH = 400
_MOST_LANES = 32
_STEPS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60),
    *(120, 300, 600, 1800, 3600, 21600, 86400),
)
_CLASSES = {HIT: "hit", PARTIAL: "partial", MISS: "miss"}


def bar(hits: int, misses: int) -> str:
    """The share of hits of both. The figures stand beside it as text."""
    share = 100 * hits / (hits + misses) if hits + misses else 0
    return (
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="miss" width="100" height="10"/>'
        f'<rect class="hit" width="{share:.1f}" height="10"/></svg>'
    )


def timeline(compiles: Sequence[Compile]) -> str:
    """A bar for each compile, from left to right as time went on; those that ran at once below each other."""
    placed = lanes(compiles)
    begin = min((one.began for _, one in placed), default=0.0)
    span = max((one.began + one.seconds for _, one in placed), default=0.0) - begin or 1.0
    rows = min(_MOST_LANES, max((lane for lane, _ in placed), default=0) + 1)
    height = rows * _LANE + _MARGIN
    scale = _WIDTH / span
    parts = [*_axis(span, scale, height)]
    paths: dict[str, list[str]] = {}
    # The shortest are wider than they took, to be seen at all: those that took time are drawn over hits.
    for lane, one in sorted(placed, key=lambda pair: pair[1].outcome != HIT):
        x, width = (one.began - begin) * scale, max(0.6, one.seconds * scale - 0.1)
        y = lane % _MOST_LANES * _LANE
        kind = _CLASSES.get(one.outcome, "left")
        if len(placed) <= _EACH:
            told = f"{os.path.basename(one.object) or '(not known)'}: {WORDS[one.outcome][0]}, {one.seconds:.3g} s"
            parts.append(
                f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_LANE - 2}">'
                f"<title>{escape(told)}</title></rect>"
            )
        else:
            paths.setdefault(kind, []).append(f"M{x:.1f} {y}h{width:.1f}v{_LANE - 2}h-{width:.1f}z")
    parts += [f'<path class="{kind}" d="{"".join(drawn)}"/>' for kind, drawn in paths.items()]
    told = f"Timeline of {len(placed)} compiles in {span:.3g} s: {counted([one.outcome for _, one in placed])}"
    return (
        f'<svg class="timeline" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(told)}">'
        + "".join(parts)
        + "</svg>"
    )


def _axis(span: float, scale: float, height: int) -> list[str]:
    step = next((one for one in _STEPS if span / one <= 10), span / 10)
    parts = []
    for number in range(int(span / step) + 1):
        x = number * step * scale
        anchor = "start" if number == 0 else "end" if x > _WIDTH - _LABEL / 2 else "middle"
        parts.append(f'<path class="grid" d="M{x:.1f} 0V{height - _MARGIN + 4}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 6}" text-anchor="{anchor}">{number * step:.6g} s</text>')
    return parts
