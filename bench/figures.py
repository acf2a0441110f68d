"""The figures of one measurement, in milliseconds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figures:
    """Milliseconds: the median and the least of all takes."""

    median: float
    least: float
    takes: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Figures:
        return cls(round(statistics.median(seconds) * 1e3, 3), round(min(seconds) * 1e3, 3), len(seconds))


def shown(figures: Figures) -> str:
    return f"{figures.median:.2f} ({figures.least:.2f})"
