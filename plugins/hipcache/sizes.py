"""Sizes as people write them: \"10 GiB\"."""

from __future__ import annotations

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def parse_size(text: str) -> int | None:
    """Bytes from "500M", "10 GiB", "1.5T" or "1000"; None where it is no size.

    As in ccache, K, M, G and T (with or without a B) count in thousands, Ki, Mi, Gi and Ti in 1024s.
    Not as in ccache, a plain number is bytes, not gigabytes.
    """
    number = text.strip().upper().removesuffix("B").rstrip()
    if len(number) > 30:  # no disk is that large, and Python refuses to convert thousands of digits
        return None
    digits = number.rstrip("KMGTI")
    unit = number[len(digits) :]
    whole, point, fraction = digits.rstrip().partition(".")
    if unit not in UNITS or not (whole.isascii() and whole.isdigit()):
        return None
    if not point:
        return int(whole) * UNITS[unit]
    if not (fraction.isascii() and fraction.isdigit()):
        return None
    divisor: int = 10 ** len(fraction)
    return int(whole + fraction) * UNITS[unit] // divisor
