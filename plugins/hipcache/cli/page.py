"""The report of a build as one page of HTML: no script, nothing from the network, light or dark as the system is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise

from hipcache.base.values import dataclass
from hipcache.cli.screen import asked_units, human_size, human_time, percent, plural
from hipcache.report import build, stats_log
from hipcache.report.build import RecordedBuild, lanes
from hipcache.report.outcome import CACHEABLE, HIT, MISS, PARTIAL, WORDS, counted
from hipcache.report.statistics import Tally
from hipcache.report.stats_log import Compile
from hipcache.report.store_history import Point
from hipcache.report.targets import by_place

_MOST_ROWS = 25
_MOST_FOLDED = 1000
_MOST_OBJECTS = 20
_STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1c2024; --dim: #5b6570; --line: #d9dee3; --card: #f4f6f8;
  --hit: #1a7f4b; --partial: #b58900; --miss: #c2551f; --left: #7b8794; --held: #3b6ea8; }
@media (prefers-color-scheme: dark) { :root { --back: #14171a; --text: #e6e9ec; --dim: #a0aab4; --line: #333a41;
  --card: #1e2328; --hit: #3fb57f; --partial: #d9b13b; --miss: #e8824e; --left: #8a95a0; --held: #7fb0e6; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 70rem; background: var(--back); color: var(--text);
  font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .3rem 0; } .dim { color: var(--dim); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem;
  margin: 1rem 0; }
.cards > div { background: var(--card); border-radius: .5rem; padding: .75rem 1rem; }
.cards dt { color: var(--dim); }
.cards dd { margin: 0; white-space: nowrap; font-size: 1.5rem; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line);
  font-variant-numeric: tabular-nums; vertical-align: top; white-space: nowrap; }
th { color: var(--dim); font-weight: 500; }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; font-weight: 400;
  color: var(--text); min-width: 9rem; }
.bar { width: 8rem; height: .7rem; vertical-align: middle; border-radius: .2rem; }
.timeline { width: 100%; min-width: 40rem; height: auto; display: block; background: var(--card);
  border-radius: .5rem; }
.timeline text { fill: var(--dim); font-size: 12px; } .grid { stroke: var(--line); fill: none; }
.held { fill: var(--held); fill-opacity: .25; stroke: var(--held); stroke-width: 1.5; }
.limit { stroke: var(--miss); stroke-dasharray: 6 4; fill: none; } .evicted { fill: var(--miss); }
.hit { fill: var(--hit); } .partial { fill: var(--partial); } .miss { fill: var(--miss); } .left { fill: var(--left); }
.key { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 1em; border-radius: .15em; }
.key:first-child { margin-left: 0; } i.hit { background: var(--hit); } i.partial { background: var(--partial); }
i.miss { background: var(--miss); } i.left { background: var(--left); } i.held { background: var(--held); }
summary { cursor: pointer; } details ul { margin: .2rem 0; color: var(--dim); }
details details { margin-left: 1rem; }
@media (max-width: 45rem) { body { padding: 1rem; } .bar { display: none; } th, td { padding: .3rem .2rem; }
  th { white-space: normal; } th:first-child, td:first-child { min-width: 5rem; } }
"""
_KEY = (
    '<p class="dim"><i class="key hit"></i>hit<i class="key partial"></i>partial hit'
    '<i class="key miss"></i>miss<i class="key left"></i>passed through or failed</p>'
)


@dataclass(frozen=True)
class Told:
    """The contents of a report. `source`: where the compiles are from; `target`: of an object's path; `bytes` of the
    store, when they were last `used`: (days ago, bytes), the newest first; the store over time, and the last builds,
    both the oldest first."""

    source: str
    compiles: Sequence[Compile]
    target: Callable[[str], str] = by_place
    bytes: int = 0
    used: Sequence[tuple[int, int]] = ()
    over_time: Sequence[Point] = ()
    builds: Sequence[RecordedBuild] = ()


def page(told: Told) -> str:
    numbers = stats_log.together(told.compiles)
    hits, units = numbers.unit_hits
    ends = numbers.compiles
    timed = any(compile.seconds for compile in told.compiles)
    cards = [
        ("compiles", str(sum(ends.values()))),
        *([("configure checks", str(sum(numbers.checks.values())))] if numbers.checks else []),
        ("hit rate", percent(ends[HIT], numbers.cacheable)),
        ("unit hit rate", percent(hits, units)),
        *([("compile time saved", human_time(numbers.seconds_saved))] if timed else []),
        *([("store", human_size(told.bytes))] if told.bytes else []),
    ]
    parts = [
        "<header><h1>hipcache: a build</h1>",
        f'<p class="dim">{escape(_when(told.compiles))}{escape(told.source)}</p></header><main>',
        '<dl class="cards">',
        *(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in cards),
        "</dl>",
        _section(
            "Timeline of the last build",
            f'<div class="wide">{timeline(build.last_build(told.compiles))}</div>{_KEY}' if timed else "",
        ),
        _section("Builds", builds_chart(told.builds) + _builds(told.builds)),
        _section("By architecture", _architectures(numbers.units)),
        _section("Why units missed", _causes(build.summarized(build.causes(told.compiles)))),
        _section("By target or directory", _groups(build.groups(told.compiles, told.target))),
        _section("Slowest misses", _slowest(told.compiles)),
        _section("Passed through to the compiler", _table(("reason", "compiles"), numbers.passed_through.items())),
        _section("Store, over time", store_chart(told.over_time)),
        _section("Store, by last use", _used(told.used)),
        "</main>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>hipcache: a build</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>{content}</section>" if content else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[object]], *, marked: bool = False) -> str:
    """`marked`: the cells are HTML already."""
    shown = [
        f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in rest) + "</tr>"
        for first, *rest in ([cell if marked else escape(str(cell)) for cell in row] for row in rows)
    ]
    if not shown:
        return ""
    heads = "".join(f'<th scope="col">{cell}</th>' for cell in head)

    def table(some: Sequence[str]) -> str:
        return f'<div class="wide"><table><tr>{heads}</tr>{"".join(some)}</table></div>'

    return table(shown[:_MOST_ROWS]) + _folded(shown[_MOST_ROWS:], table)


def _folded(rest: Sequence[str], show: Callable[[Sequence[str]], str]) -> str:
    """A part that opens with one click; a page of 5,000 objects stays small, so the last ones are counted alone."""
    if not rest:
        return ""
    more = len(rest) - _MOST_FOLDED
    uncounted = f'<p class="dim">and {more} more, which this page leaves out</p>' if more > 0 else ""
    return f"<details><summary>and {len(rest)} more</summary>{show(rest[:_MOST_FOLDED])}{uncounted}</details>"


def _builds(builds: Sequence[RecordedBuild]) -> str:
    return _table(BUILD_HEAD, build_rows(builds), marked=True)


def _architectures(units: Mapping[str, Tally]) -> str:
    rows = []
    for name, tally in asked_units(units):
        share = f"{bar(tally.hits, tally.misses)} {percent(tally.hits, tally.hits + tally.misses)}"
        rows.append((escape(name), tally.hits, tally.misses, share))
    return _table(("architecture", "hits", "misses", "hit rate"), rows, marked=True)


def _groups(groups: Iterable[build.Group]) -> str:
    rows = [
        (
            escape(group.name),
            group.total,
            group.served,
            group.some,
            group.compiled,
            group.left,
            bar(group.served, group.some + group.compiled),
            human_time(group.seconds) if group.seconds else "",
        )
        for group in groups
    ]
    head = ("name", "compiles", "hits", "partial hits", "misses", "not cached", "", "time")
    return _table(head, rows, marked=True)


def _causes(causes: Iterable[build.Cause]) -> str:
    rows = []
    for cause in causes:
        objects = [f"<li>{escape(path)}</li>" for path in cause.objects]
        shown = _list(objects[:_MOST_OBJECTS]) + _folded(objects[_MOST_OBJECTS:], _list)
        name = f"<details><summary>{escape(cause.name)}</summary>{shown}</details>"
        rows.append((name, cause.units, len(cause.objects), human_time(cause.seconds) if cause.seconds else ""))
    return _table(("cause", "units", "objects", "compiler time"), rows, marked=True)


def _list(items: Sequence[str]) -> str:
    return f"<ul>{''.join(items)}</ul>"


def _slowest(compiles: Sequence[Compile]) -> str:
    found = build.slowest(compiles, 20)
    return _table(("object", "unit", "time"), ((path, unit.name, human_time(unit.seconds)) for path, unit in found))


def _used(used: Sequence[tuple[int, int]]) -> str:
    whole = sum(size for _, size in used)
    rows = [
        ("today" if days == 0 else f"{plural(days, 'day')} ago", human_size(size), bar(size, whole - size))
        for days, size in used
    ]
    return _table(("last used", "size", "share"), rows, marked=True)


def _when(compiles: Sequence[Compile]) -> str:
    if not compiles:
        return ""
    begin = min(compile.began for compile in compiles)
    span = max(compile.began + compile.seconds for compile in compiles) - begin
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(begin))}, {human_time(span)}; "


_LEFT, _RIGHT = 84, 8
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
        counts = [
            (point.hits, point.partial, point.misses, point.evicted, point.evicted_bytes) for point in (before, now)
        ]
        zeroed = any(new < old for old, new in zip(*counts, strict=True))
        yield Change(now.seconds, *(new if zeroed else new - old for old, new in zip(*counts, strict=True)))


def store_chart(points: Sequence[Point]) -> str:
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
    drawn = "".join((*_days(first, last, x, height), *_held(points, steps, x), *_compiles(steps, first, last, x)))
    return f'<div class="wide">{_svg(height, told, drawn)}</div>{_legend(drawn)}{_store_table(points, steps)}'


def _legend(drawn: str) -> str:
    """The legend of what is drawn."""
    red = ", ".join(
        text for kind, text in (("limit", "size limit (dashed)"), ("evicted", "evictions")) if f'"{kind}"' in drawn
    )
    held = '<i class="key held"></i>held' + (f'<i class="key miss"></i>{red}' if red else "")
    return f'<p class="dim">{held}</p>{_COMPILES_KEY if "<rect " in drawn else ""}'


def _days(first: int, last: int, x: Callable[[float], float], height: int) -> Iterator[str]:
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
    for step in steps:
        if step.evicted:
            title = f"{step.evicted} entries evicted, {human_size(step.evicted_bytes)}, by {_moment(step.seconds, 0)}"
            yield f'<path class="evicted" d="M{x(step.seconds):.1f} {base}l-5 9h10z"><title>{title}</title></path>'


def _compiles(steps: Sequence[Change], first: int, last: int, x: Callable[[float], float]) -> Iterator[str]:
    base, bars = _TOP + _SIZE + _GAP + _COMPILES, [[0, 0, 0] for _ in range(_BARS)]
    for step in steps:
        bar = bars[min(_BARS - 1, (step.seconds - first) * _BARS // (last - first))]
        for number, count in enumerate((step.hits, step.partial, step.misses)):
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


def _store_table(points: Sequence[Point], steps: Sequence[Change]) -> str:
    heads = ("counted", "holds", "entries", "hits", "partial hits", "misses", "evicted")
    rows = [
        (
            *(_moment(point.seconds, 0), human_size(point.bytes), point.entries),
            *(step.hits, step.partial, step.misses, step.evicted),
        )
        for point, step in list(zip(points[1:], steps, strict=True))[: -_ROWS - 1 : -1]
    ]
    title = f"the last {len(rows)} times that it was counted" if len(rows) > 1 else "the figures"
    return f"<details><summary>{title}</summary>{_table(heads, rows)}</details>"


def _moment(seconds: float, span: float) -> str:
    """A moment on an axis that spans so many seconds; 0: as exact as need be."""
    form = "%Y-%m-%d" if span > 10 * _DAY else "%m-%d %H:%M" if span > _DAY else "%H:%M" if span else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(seconds))


_TALL, _MOST = 120, 60


def builds_chart(builds: Sequence[RecordedBuild]) -> str:
    """Of each build the shares of hits, partial hits and misses, from left to right; nothing without two of them."""
    shown = [built for built in builds if _cacheable(built)][-_MOST:]
    if len(shown) < 2:
        return ""
    step, parts = _WIDTH / len(shown), []
    for number, built in enumerate(shown):
        top, total = float(_TALL), _cacheable(built)
        title = (
            f"{_end(built)} {built.label or built.command}: {percent(built.hits, total)} of {plural(total, 'compile')}"
        )
        for end in CACHEABLE:
            tall = _TALL * built.compiles.get(end, 0) / total
            top -= tall
            at = f'x="{number * step + 1:.1f}" y="{top:.1f}" width="{step - 2:.1f}" height="{tall:.1f}"'
            parts.append(f'<rect class="{end}" {at}><title>{escape(title)}</title></rect>' if tall else "")
    told = f"The share of hits, partial hits and misses in the last {len(shown)} builds"
    return f'<div class="wide">{_svg(_TALL, told, "".join(parts))}</div>'


def build_rows(builds: Sequence[RecordedBuild]) -> list[tuple[str, ...]]:
    """The cells of each build in HTML, the newest first."""
    return [
        (
            f"<details><summary>{escape(f'{_end(built)} {built.label}')}</summary>{_build_details(built)}</details>",
            str(sum(built.compiles.values())),
            percent(built.hits, _cacheable(built)),
            human_time(built.seconds),
            human_time(built.saved),
        )
        for built in reversed(builds)
    ]


BUILD_HEAD = ("build", "compiles", "hit rate", "took", "compile time saved")


def _build_details(build: RecordedBuild) -> str:
    units = asked_units({name: Tally(hits, misses) for name, (hits, misses) in build.units.items()})
    lines = [f"<code>{escape(build.command)}</code>"]
    lines += [f"{escape(name)}: {tally.hits} of {tally.hits + tally.misses} from the cache" for name, tally in units]
    lines += [f"missed: {escape(str(name))}: {plural(int(count), 'unit')}" for name, count in build.causes]
    return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"


def _cacheable(build: RecordedBuild) -> int:
    return sum(build.compiles.get(end, 0) for end in CACHEABLE)


def _end(build: RecordedBuild) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(build.when))


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
    begin = min((compile.began for _, compile in placed), default=0.0)
    span = max((compile.began + compile.seconds for _, compile in placed), default=0.0) - begin or 1.0
    rows = min(_MOST_LANES, max((lane for lane, _ in placed), default=0) + 1)
    height = rows * _LANE + _MARGIN
    scale = _WIDTH / span
    parts = [*_seconds_axis(span, scale, height)]
    paths: dict[str, list[str]] = {}
    # The shortest are wider than they took, to be seen at all: those that took time are drawn over hits.
    for lane, compile in sorted(placed, key=lambda pair: pair[1].outcome != HIT):
        x, width = (compile.began - begin) * scale, max(0.6, compile.seconds * scale - 0.1)
        y = lane % _MOST_LANES * _LANE
        kind = _CLASSES.get(compile.outcome, "left")
        if len(placed) <= _EACH:
            name, end = os.path.basename(compile.object) or "(not known)", WORDS[compile.outcome][0]
            told = f"{name}: {end}, {compile.seconds:.3g} s"
            parts.append(
                f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_LANE - 2}">'
                f"<title>{escape(told)}</title></rect>"
            )
        else:
            paths.setdefault(kind, []).append(f"M{x:.1f} {y}h{width:.1f}v{_LANE - 2}h-{width:.1f}z")
    parts += [f'<path class="{kind}" d="{"".join(drawn)}"/>' for kind, drawn in paths.items()]
    told = f"Timeline of {len(placed)} compiles in {span:.3g} s: {counted([compile.outcome for _, compile in placed])}"
    return _svg(height, told, "".join(parts))


def _svg(height: int, told: str, drawn: str) -> str:
    """`told`: for those who do not see what is drawn."""
    return f'<svg class="timeline" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(told)}">{drawn}</svg>'


def _seconds_axis(span: float, scale: float, height: int) -> list[str]:
    step = next((seconds for seconds in _STEPS if span / seconds <= 10), span / 10)
    parts = []
    for number in range(int(span / step) + 1):
        x = number * step * scale
        anchor = "start" if number == 0 else "end" if x > _WIDTH - _LABEL / 2 else "middle"
        parts.append(f'<path class="grid" d="M{x:.1f} 0V{height - _MARGIN + 4}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 6}" text-anchor="{anchor}">{number * step:.6g} s</text>')
    return parts
