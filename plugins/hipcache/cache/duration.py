"""The duration of the work in a record."""

from __future__ import annotations

# Seconds: no work takes so long. JSON has numbers that are none: Infinity, NaN.
_MOST = 1e9


def duration(seconds: object) -> float:
    """Raises ValueError for what is none."""
    if not isinstance(seconds, (int, float)) or not 0 <= seconds < _MOST:
        raise ValueError("no duration")
    return float(seconds)
