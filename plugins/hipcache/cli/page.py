"""The report of a build as one page of HTML: no script, nothing from the network, light or dark as the system is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from hipcache.cli import arches, builds_chart, store_chart
from hipcache.cli.screen import human_size, human_time, percent, plural
from hipcache.report import build, drawing, logged
from hipcache.report.builds import RecordedBuild
from hipcache.report.outcome import HIT
from hipcache.report.stats_log import Compile
from hipcache.report.store_history import Point
from hipcache.report.sums import Tally
from hipcache.report.targets import by_place
from hipcache.values import dataclass

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
    numbers = logged.together(told.compiles)
    hits, units = numbers.unit_hits
    ends = numbers.compiles
    timed = any(one.seconds for one in told.compiles)
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
            f'<div class="wide">{drawing.timeline(build.last_build(told.compiles))}</div>{_KEY}' if timed else "",
        ),
        _section("Builds", builds_chart.chart(told.builds) + _builds(told.builds)),
        _section("By architecture", _architectures(numbers.units)),
        _section("Why units missed", _causes(build.summarized(build.causes(told.compiles)))),
        _section("By target or directory", _groups(build.groups(told.compiles, told.target))),
        _section("Slowest misses", _slowest(told.compiles)),
        _section("Passed through to the compiler", _table(("reason", "compiles"), numbers.passed_through.items())),
        _section("Store, over time", store_chart.chart(told.over_time)),
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
    return _table(builds_chart.HEAD, builds_chart.rows(builds), marked=True)


def _architectures(units: Mapping[str, Tally]) -> str:
    rows = []
    for name, tally in arches.units(units):
        share = f"{drawing.bar(tally.hits, tally.misses)} {percent(tally.hits, tally.hits + tally.misses)}"
        rows.append((escape(name), tally.hits, tally.misses, share))
    return _table(("architecture", "hits", "misses", "hit rate"), rows, marked=True)


def _groups(groups: Iterable[build.Group]) -> str:
    rows = [
        (
            escape(one.name),
            one.total,
            one.served,
            one.some,
            one.compiled,
            one.left,
            drawing.bar(one.served, one.some + one.compiled),
            human_time(one.seconds) if one.seconds else "",
        )
        for one in groups
    ]
    head = ("name", "compiles", "hits", "partial hits", "misses", "not cached", "", "time")
    return _table(head, rows, marked=True)


def _causes(causes: Iterable[build.Cause]) -> str:
    rows = []
    for one in causes:
        objects = [f"<li>{escape(path)}</li>" for path in one.objects]
        shown = _list(objects[:_MOST_OBJECTS]) + _folded(objects[_MOST_OBJECTS:], _list)
        name = f"<details><summary>{escape(one.name)}</summary>{shown}</details>"
        rows.append((name, one.units, len(one.objects), human_time(one.seconds) if one.seconds else ""))
    return _table(("cause", "units", "objects", "compiler time"), rows, marked=True)


def _list(items: Sequence[str]) -> str:
    return f"<ul>{''.join(items)}</ul>"


def _slowest(compiles: Sequence[Compile]) -> str:
    found = build.slowest(compiles, 20)
    return _table(("object", "unit", "time"), ((path, unit.name, human_time(unit.seconds)) for path, unit in found))


def _used(used: Sequence[tuple[int, int]]) -> str:
    whole = sum(size for _, size in used)
    rows = [
        ("today" if days == 0 else f"{plural(days, 'day')} ago", human_size(size), drawing.bar(size, whole - size))
        for days, size in used
    ]
    return _table(("last used", "size", "share"), rows, marked=True)


def _when(compiles: Sequence[Compile]) -> str:
    if not compiles:
        return ""
    begin = min(one.began for one in compiles)
    span = max(one.began + one.seconds for one in compiles) - begin
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(begin))}, {human_time(span)}; "
