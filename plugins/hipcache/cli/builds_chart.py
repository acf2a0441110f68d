"""The last builds, for the page of a report: a bar for each, and a row that unfolds. The page has the colours of the
classes in this SVG."""

from __future__ import annotations

import time
from collections.abc import Sequence
from html import escape

from hipcache.cli import arches
from hipcache.cli.screen import human_time, percent, plural
from hipcache.report.builds import RecordedBuild
from hipcache.report.outcome import HIT, MISS, PARTIAL
from hipcache.report.sums import Tally

_WIDTH, _TALL, _MOST = 1000, 120, 60
_CACHEABLE = (HIT, PARTIAL, MISS)


def chart(builds: Sequence[RecordedBuild]) -> str:
    """Of each build the shares of hits, partial hits and misses, from left to right; nothing without two of them."""
    shown = [one for one in builds if _cacheable(one)][-_MOST:]
    if len(shown) < 2:
        return ""
    step, parts = _WIDTH / len(shown), []
    for number, one in enumerate(shown):
        top, total = float(_TALL), _cacheable(one)
        title = f"{_when(one)} {one.label or one.command}: {percent(one.hits, total)} of {plural(total, 'compile')}"
        for end in _CACHEABLE:
            tall = _TALL * one.compiles.get(end, 0) / total
            top -= tall
            at = f'x="{number * step + 1:.1f}" y="{top:.1f}" width="{step - 2:.1f}" height="{tall:.1f}"'
            parts.append(f'<rect class="{end}" {at}><title>{escape(title)}</title></rect>' if tall else "")
    told = f"The share of hits, partial hits and misses in the last {len(shown)} builds"
    return (
        f'<div class="wide"><svg class="timeline" viewBox="0 0 {_WIDTH} {_TALL}" role="img" aria-label="{told}">'
        + "".join(parts)
        + "</svg></div>"
    )


def rows(builds: Sequence[RecordedBuild]) -> list[tuple[str, ...]]:
    """The cells of each build in HTML, the newest first."""
    return [
        (
            f"<details><summary>{escape(f'{_when(one)} {one.label}')}</summary>{_details(one)}</details>",
            str(sum(one.compiles.values())),
            percent(one.hits, _cacheable(one)),
            human_time(one.seconds),
            human_time(one.saved),
        )
        for one in reversed(builds)
    ]


HEAD = ("build", "compiles", "hit rate", "took", "compile time saved")


def _details(build: RecordedBuild) -> str:
    units = arches.units({name: Tally(hits, misses) for name, (hits, misses) in build.units.items()})
    lines = [f"<code>{escape(build.command)}</code>"]
    lines += [f"{escape(name)}: {tally.hits} of {tally.hits + tally.misses} from the cache" for name, tally in units]
    lines += [f"missed: {escape(str(name))}: {plural(int(count), 'unit')}" for name, count in build.causes]
    return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"


def _cacheable(build: RecordedBuild) -> int:
    return sum(build.compiles.get(end, 0) for end in _CACHEABLE)


def _when(build: RecordedBuild) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(build.when))
