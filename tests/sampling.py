"""Which cases a short run leaves out; with TEST_FULL=1 (`make test-full`) there is none.

- Of a matrix of three cases or more, each case meets one compiler, and they take turns. A test with the marker
  `every_compiler` says itself which case meets which.
- In a module with the marker `one_compiler` a test of one or two cases does so too: compilers take turns from test to
  test.
- Of a matrix with the marker `sampled(n)` one case in n is run. Each n neighbours give one, the first n the first case;
  from then on the place moves by one, so that no column of a table is left out for good.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

COMPILERS = ("15", "19")
# So many cases are a matrix.
_MANY = 3


@dataclass(frozen=True)
class Case:
    """One item of pytest. `parameters`: all but its compiler, which is None where the test has none."""

    module: str
    test: str
    parameters: str = ""
    compiler: str | None = None
    every_compiler: bool = False
    one_compiler: bool = False
    sampled: int = 1


def left_out(cases: Sequence[Case]) -> set[int]:
    """The positions of those that a short run does without."""
    found: set[int] = set()
    turns: dict[str, int] = {}
    for matrix in _grouped([case.test for case in cases], range(len(cases))):
        first = cases[matrix[0]]
        rows = _grouped([cases[number].parameters for number in matrix], matrix)
        kept = _sample(rows, first.sampled)
        found.update(set(matrix).difference(*kept))
        if first.every_compiler:
            continue
        whole = [row for row in kept if {cases[number].compiler for number in row} == set(COMPILERS)]
        turn = 0
        if len(whole) < _MANY:
            if not first.one_compiler:
                continue
            turn = turns.get(first.module, 0)
            turns[first.module] = turn + len(whole)
        for place, row in enumerate(whole, turn):
            found.update(number for number in row if cases[number].compiler != COMPILERS[place % len(COMPILERS)])
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
