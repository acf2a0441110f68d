"""The store over time, for the page of a report: what it held beside its size limit, evictions, and how compiles ended.
SVG with classes, whose colours the page's style gives (light and dark)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import pairwise

from hipcache.cli.screen import human_size
from hipcache.report.store_history import Point
from hipcache.values import dataclass

_WIDTH, _LEFT, _RIGHT = 1000, 84, 8
_TOP, _SIZE, _GAP, _COMPILES, _BOTTOM = 12, 150, 26, 90, 24
_BARS, _TICKS, _ROWS = 60, 5, 12
_DAY = 24 * 3600
_COMPILES_KEY = (
    '<p class="dim">Below, the compiles: <i class="key hit"></i>hit'
    '<i class="key partial"></i>partial hit<i class="key miss"></i>miss</p>'
)


@dataclass(frozen=True)
class Change:
    """From one point to the next: it ended at `seconds`."""

    seconds: int
    hits: int
    partial: int
    misses: int
    evicted: int
    evicted_bytes: int


def changes(points: Sequence[Point]) -> Iterator[Change]:
    """The differences between points. After a reset of the counts (`stats --zero`) a difference begins at zero."""
    for before, now in pairwise(points):
        counts = [(one.hits, one.partial, one.misses, one.evicted, one.evicted_bytes) for one in (before, now)]
        zeroed = any(new < old for old, new in zip(*counts, strict=True))
        yield Change(now.seconds, *(new if zeroed else new - old for old, new in zip(*counts, strict=True)))


def chart(points: Sequence[Point]) -> str:
    """Nothing for a store that has one moment only."""
    if not points or points[0].seconds >= points[-1].seconds:
        return ""
    first, last = points[0].seconds, points[-1].seconds
    scale = (_WIDTH - _LEFT - _RIGHT) / (last - first)

    def x(seconds: float) -> float:
        return _LEFT + (seconds - first) * scale

    steps = list(changes(points))
    height = _TOP + _SIZE + _GAP + _COMPILES + _BOTTOM
    told = f"The store from {_moment(first, _DAY)} to {_moment(last, _DAY)}: {human_size(points[-1].bytes)} at the end"
    drawn = "".join((*_axis(first, last, x, height), *_held(points, steps, x), *_compiles(steps, first, last, x)))
    return (
        f'<div class="wide"><svg class="timeline" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{escape(told)}">{drawn}</svg></div>{_key(drawn)}{_table(points, steps)}'
    )


def _key(drawn: str) -> str:
    """The legend of what is drawn."""
    red = ", ".join(
        text for kind, text in (("limit", "size limit (dashed)"), ("evicted", "evictions")) if f'"{kind}"' in drawn
    )
    held = '<i class="key held"></i>held' + (f'<i class="key miss"></i>{red}' if red else "")
    return f'<p class="dim">{held}</p>{_COMPILES_KEY if "<rect " in drawn else ""}'


def _axis(first: int, last: int, x: Callable[[float], float], height: int) -> Iterator[str]:
    for number in range(_TICKS + 1):
        seconds = first + (last - first) * number / _TICKS
        anchor = "start" if number == 0 else "end" if number == _TICKS else "middle"
        yield f'<path class="grid" d="M{x(seconds):.1f} {_TOP}V{height - _BOTTOM + 4}"/>'
        label = _moment(seconds, last - first)
        yield f'<text x="{x(seconds):.1f}" y="{height - 6}" text-anchor="{anchor}">{label}</text>'


def _held(points: Sequence[Point], steps: Sequence[Change], x: Callable[[float], float]) -> Iterator[str]:
    """A limit that the store is far from would press it flat: that one is not drawn."""
    most = max(point.bytes for point in points) or 1
    limits = [point.limit for point in points]
    if limits[-1] and max(limits) < 5 * most:
        most = max(most, *limits)
    base = _TOP + _SIZE

    def y(size: int) -> float:
        return base - _SIZE * size / most

    yield from _scale(base, _SIZE, human_size(most))
    line = "L".join(f"{x(point.seconds):.1f} {y(point.bytes):.1f}" for point in points)
    yield f'<path class="held" d="M{x(points[0].seconds):.1f} {base}L{line}L{x(points[-1].seconds):.1f} {base}z"/>'
    if limits[-1] and limits[-1] <= most:
        yield f'<path class="limit" d="M{_LEFT} {y(limits[-1]):.1f}H{_WIDTH - _RIGHT}"/>'
    for one in steps:
        if one.evicted:
            title = f"{one.evicted} entries evicted, {human_size(one.evicted_bytes)}, by {_moment(one.seconds, 0)}"
            yield f'<path class="evicted" d="M{x(one.seconds):.1f} {base}l-5 9h10z"><title>{title}</title></path>'


def _compiles(steps: Sequence[Change], first: int, last: int, x: Callable[[float], float]) -> Iterator[str]:
    base, bars = _TOP + _SIZE + _GAP + _COMPILES, [[0, 0, 0] for _ in range(_BARS)]
    for one in steps:
        bar = bars[min(_BARS - 1, (one.seconds - first) * _BARS // (last - first))]
        for number, count in enumerate((one.hits, one.partial, one.misses)):
            bar[number] += count
    most = max(map(sum, bars)) or 1
    yield from _scale(base, _COMPILES, f"{most} compiles" if most > 1 else "1 compile")
    width = (x(last) - x(first)) / _BARS
    for number, bar in enumerate(bars):
        top = float(base)
        title = f"hits: {bar[0]}, partial hits: {bar[1]}, misses: {bar[2]}"
        for kind, count in zip(("hit", "partial", "miss"), bar, strict=True):
            tall = _COMPILES * count / most
            top -= tall
            if count:
                at = f'x="{x(first) + number * width + 0.5:.1f}" y="{top:.1f}" width="{width - 1:.1f}"'
                yield f'<rect class="{kind}" {at} height="{tall:.1f}"><title>{title}</title></rect>'


def _scale(base: int, tall: int, most: str) -> Iterator[str]:
    yield f'<path class="grid" d="M{_LEFT} {base}H{_WIDTH - _RIGHT}M{_LEFT} {base - tall}H{_WIDTH - _RIGHT}"/>'
    yield f'<text x="{_LEFT - 6}" y="{base}" text-anchor="end">0</text>'
    yield f'<text x="{_LEFT - 6}" y="{base - tall + 10}" text-anchor="end">{most}</text>'


def _table(points: Sequence[Point], steps: Sequence[Change]) -> str:
    heads = ("counted", "holds", "entries", "hits", "partial hits", "misses", "evicted")
    rows = []
    for point, one in list(zip(points[1:], steps, strict=True))[: -_ROWS - 1 : -1]:
        cells = (human_size(point.bytes), point.entries, one.hits, one.partial, one.misses, one.evicted)
        shown = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{_moment(point.seconds, 0)}</th>{shown}</tr>')
    head = "".join(f'<th scope="col">{cell}</th>' for cell in heads)
    title = f"the last {len(rows)} times that it was counted" if len(rows) > 1 else "the figures"
    table = f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'
    return f"<details><summary>{title}</summary>{table}</details>"


def _moment(seconds: float, span: float) -> str:
    """A moment on an axis that spans so many seconds; 0: as exact as need be."""
    form = "%Y-%m-%d" if span > 10 * _DAY else "%m-%d %H:%M" if span > _DAY else "%H:%M" if span else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(seconds))
