"""Which cases a short run leaves out; with TEST_FULL=1 (`make test-full`) there is none.

- Each case meets one compiler. Compilers take turns from case to case and from test to test of a module. A test with
  the marker `every_compiler` says itself which case meets which.
- In a module with the marker `takes_turns(fixture)` the values of that fixture (versions of a build tool, or the like)
  take turns instead.
- Of a matrix with the marker `sampled(n)` one case in n is run. Each n neighbours give one, the first n the first case;
  from then on the place moves by one, so that no column of a table is left out for good.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One item of pytest. `turn`: its value of the fixture whose values take turns, or None, also where the item is
    skipped, which must not be the one that stands for others. `parameters`: all others;
    `every`: meets it every value? `module` is where turns go on from test to test."""

    module: str
    test: str
    parameters: str = ""
    turn: str | None = None
    every: bool = False
    sampled: int = 1


def left_out(cases: Sequence[Case]) -> set[int]:
    """The positions of those that a short run does without."""
    found: set[int] = set()
    last: dict[str, int] = {}
    for matrix in _grouped([case.test for case in cases], range(len(cases))):
        first = cases[matrix[0]]
        rows = _grouped([cases[number].parameters for number in matrix], matrix)
        kept = _sample(rows, first.sampled)
        found.update(set(matrix).difference(*kept))
        whole = [[number for number in row if cases[number].turn is not None] for row in kept]
        whole = [row for row in whole if len(row) > 1]
        if first.every:
            continue
        begin = last.get(first.module, 0)
        last[first.module] = begin + len(whole)
        for place, row in enumerate(whole, begin):
            found.update(set(row) - {row[place % len(row)]})
    return found


def _grouped(keys: Sequence[Hashable], numbers: Sequence[int]) -> list[list[int]]:
    """`numbers` of the same key together, in the order in which each key is met first."""
    groups: dict[Hashable, list[int]] = {}
    for key, number in zip(keys, numbers, strict=True):
        groups.setdefault(key, []).append(number)
    return list(groups.values())


def _sample(rows: list[list[int]], one_in: int) -> list[list[int]]:
    windows = (rows[begin : begin + one_in] for begin in range(0, len(rows), one_in))
    return [window[min(number % one_in, len(window) - 1)] for number, window in enumerate(windows)]
