"""The statistics of one build: those of now without those of a mark, a file that `hipcache stats --json` wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from hipcache.errors import HipcacheError
from hipcache.report.sums import VERSION, Statistics, Tally
from hipcache.values import asdict, replace

_SIMPLE = ("compiles", "verified", "remote", "preambles", "executions", "timed", "evicted")
_BY_REASON = ("passed_through", "not_kept", "without_preamble", "execution_faults", "checks")
# Bytes of a mark: a page or two as a rule.
_MOST = 1 << 20
_MOST_COUNTED = 1e18  # JSON has numbers that are none: Infinity, NaN


class NoMark(HipcacheError):
    """The file is none, or the counts do not go on from it."""


def since(numbers: Statistics, mark: Path) -> Statistics:
    """The counts after the mark; their `since` is the time when the mark was written. Raises NoMark."""
    before = _read(mark)
    if before.get("since") not in (None, numbers.since):
        raise NoMark(
            f"'{mark}' does not match these counts: they were set to zero since, or it is from another store", _HINT
        )
    if before.get("version", VERSION) != VERSION:
        raise NoMark(f"'{mark}' has a different format version", _HINT)
    jobs = _mapping(before, "jobs")
    units = _mapping(before, "units")
    averages, timed = _mapping(before, "average_seconds"), _mapping(before, "timed")
    average = {}
    for end, number in numbers.timed.items():
        there = int(_number(timed, end))
        if number > there:
            spent = numbers.average_seconds[end] * number - _number(averages, end) * there
            average[end] = max(0.0, spent / (number - there))
    return replace(
        numbers,
        average_seconds=average,
        **{name: _less(getattr(numbers, name), _mapping(before, name)) for name in _SIMPLE},
        **{name: _counted(getattr(numbers, name), _mapping(before, name)) for name in _BY_REASON},
        remote_units={
            unit: _less(counts, _mapping(_mapping(before, "remote_units"), unit))
            for unit, counts in numbers.remote_units.items()
        },
        units={name: _left(tally, _mapping(units, name)) for name, tally in numbers.units.items()},
        frontend=_left(numbers.frontend, _mapping(jobs, "frontend")),
        backend=_left(numbers.backend, _mapping(jobs, "backend")),
        seconds_saved=max(0.0, numbers.seconds_saved - _number(before, "seconds_saved")),
        lock_timeouts=max(0, numbers.lock_timeouts - int(_number(before, "lock_timeouts"))),
        direct=max(0, numbers.direct - int(_number(before, "direct_hits"))),
        since=mark.stat().st_mtime,
    )


_HINT = "write it before the build: hipcache stats --json > FILE"


def _read(mark: Path) -> Mapping[str, object]:
    try:
        with open(mark, "rb") as file:
            text = file.read(_MOST)
    except OSError as error:
        raise NoMark(f"cannot read '{mark}': {error.strerror}", _HINT) from error
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoMark(f"'{mark}' is not output of 'hipcache stats --json': {error}", _HINT) from error
    if not isinstance(document, dict) or not {"compiles", "units", "jobs"} <= document.keys():
        raise NoMark(f"'{mark}' is not output of 'hipcache stats --json'", _HINT)
    return document


def _mapping(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = document.get(name, {})
    return found if isinstance(found, dict) else {}


def _number(document: Mapping[str, object], name: str) -> float:
    found = document.get(name, 0)
    return found if isinstance(found, int | float) and abs(found) < _MOST_COUNTED else 0


def _less(now: Mapping[str, int], before: Mapping[str, object]) -> dict[str, int]:
    return {name: max(0, count - int(_number(before, name))) for name, count in now.items()}


def _counted(now: Mapping[str, int], before: Mapping[str, object]) -> dict[str, int]:
    """The same without zeros: each of these has a row."""
    return {name: count for name, count in _less(now, before).items() if count}


def _left(now: Tally, before: Mapping[str, object]) -> Tally:
    return Tally(**{name: int(count) for name, count in _less(asdict(now), before).items()})
