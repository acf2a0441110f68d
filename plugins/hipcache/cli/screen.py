"""The look of the output: colours on a terminal, tables, sizes and times for people."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TextIO

from hipcache.patterns import pattern

_COLOURS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
_ESCAPE = pattern(r"\x1b\[\d+m")


class Screen:
    """Prints to `out`, with colours if that is a terminal and NO_COLOR (no-color.org) does not forbid them."""

    def __init__(self, out: TextIO, environ: Mapping[str, str]) -> None:
        self._out = out
        self.colours = out.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"

    def paint(self, colour: str, text: str) -> str:
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if self.colours else text

    def line(self, text: str = "") -> None:
        print(text, file=self._out)

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """The first column is flush left, the others are figures and flush right. The first row is the heading."""
        widths = [max(_width(row[column]) for row in rows) for column in range(len(rows[0]))]
        for number, row in enumerate(rows):
            cells = [_pad(row[0], widths[0], left=True)]
            cells += [_pad(cell, width, left=False) for cell, width in zip(row[1:], widths[1:], strict=True)]
            text = "  ".join(cells).rstrip()
            self.line(text if number else self.paint("bold", text))


def _width(text: str) -> int:
    return len(_ESCAPE.sub("", text))


def _pad(text: str, width: int, *, left: bool) -> str:
    space = " " * (width - _width(text))
    return text + space if left else space + text


def human_size(size: int) -> str:
    """ "1.5 GiB": in 1024s, as the default limit and the tools of file systems count."""
    if abs(size) < 1024:
        return f"{size} bytes" if size != 1 else "1 byte"
    amount = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        amount /= 1024
        if round(abs(amount), 1) < 1024 or unit == "TiB":
            break
    return f"{amount:.1f} {unit}"


def human_time(seconds: float) -> str:
    """ "3 h 12 min", "2 min 5 s", "4.2 s": two figures are enough."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    total = round(seconds)
    if total < 3600:
        return f"{total // 60} min {total % 60} s"
    if total < 24 * 3600:
        return f"{total // 3600} h {total % 3600 // 60} min"
    return f"{total // 86400} d {total % 86400 // 3600} h"


def percent(part: int, whole: int) -> str:
    """ "37.5 %", and a dash if the total is zero. Only all of it is "100.0 %"."""
    if whole == 0:
        return "-"
    share = 100 * part / whole
    if part < whole:
        share = min(share, 99.9)
    return f"{share:.1f} %"


def plural(count: int, noun: str) -> str:
    """ "1 entry", "2 entries", "2 days"."""
    if count != 1 and noun.endswith("y") and noun[-2] not in "aeiou":
        noun = f"{noun[:-1]}ies"
    elif count != 1:
        noun += "es" if noun.endswith("s") else "s"
    return f"{count} {noun}"


class ProgressLine:
    """A count that is rewritten in place a few times a second, where `out` is a terminal; nothing is left of it."""

    _PAUSE = 0.2

    def __init__(self, out: TextIO, what: str) -> None:
        self._out = out
        self._what = what
        self._shown = out.isatty()
        self._next = 0.0
        self.number = 0

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown and self._next:
            print("\r\x1b[K", end="", file=self._out, flush=True)

    def at(self, number: int) -> None:
        self.number = number
        if self._shown and time.monotonic() >= self._next:
            self._next = time.monotonic() + self._PAUSE
            print(f"\r{self._what}: {number}\x1b[K", end="", file=self._out, flush=True)
