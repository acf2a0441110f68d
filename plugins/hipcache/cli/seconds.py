"""A number of seconds that a subcommand is given (`--timeout`)."""

from __future__ import annotations

import argparse
import math


def parse(text: str) -> float:
    """Raises ArgumentTypeError. Without an end (inf, nan) a wait has none."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds, such as 30")
    return found
