"""The look of the output: colours on a terminal, tables, sizes, times and architectures for people."""

from __future__ import annotations

import argparse
import math
import string
import time
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from hipcache.base.patterns import pattern
from hipcache.report.outcome import HOST, LINK
from hipcache.report.statistics import Tally

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


def sentence(text: str, counts: Mapping[str, object], screen: Screen) -> str:
    """The text with the counts in it. A count's form is a noun ("3 hits"), "size" of bytes, "time" of milliseconds,
    "red NOUN" ("3 NOUN", in red unless it is 0), "?TEXT", the text unless it is 0, or nothing. Counts by name are
    their sum, or "each"."""
    return _Sentence(screen).vformat(text, (), counts)


class _Sentence(string.Formatter):
    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def format_field(self, value: Any, form: str) -> str:
        if form == "each":
            return ", ".join(f"{name} {count}" for name, count in value.items())
        count: int = sum(value.values()) if isinstance(value, Mapping) else value
        if form[:1] == "?":
            return form[1:] if count else ""
        if form[:4] == "red ":
            told = f"{count} {form[4:]}"
            return self._screen.paint("red", told) if count else told
        if form == "size":
            return human_size(count)
        if form == "time":
            return human_time(count / 1000)
        return plural(count, form) if form else str(count)


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


_ARCH = pattern(r"gfx(?:(?P<major>[0-9]+)(?P<minor>[0-9a-f])(?P<step>[0-9a-f])|(?P<family>[0-9]+)(?P<rest>-.*))$")


def arch_order(arch: str) -> tuple[int, str, str]:
    """A sort key. The last two digits of a name are hexadecimal (minor, stepping), those before them the
    major version; a family (gfx9-generic, gfx10-3-generic) goes before its members."""
    name, _, features = arch.partition(":")
    match = _ARCH.fullmatch(name)
    if not match:
        return (-1, name, features)
    if match["family"]:
        return (int(match["family"]), match["rest"], features)
    return (int(match["major"]), match["minor"] + match["step"], features)


def asked_units(tallies: Mapping[str, Tally]) -> list[tuple[str, Tally]]:
    """The units that were asked for: the architectures in their order, then the host and the link."""
    asked = [(name, tally) for name, tally in tallies.items() if tally.hits or tally.misses]
    return sorted(asked, key=lambda unit: (unit[0] in (HOST, LINK), unit[0] == LINK, arch_order(unit[0])))


REMOTE_HEAD = ("fetched", "not there", "bytes", "time", "faults")


def remote_rows(units: Mapping[str, Mapping[str, int]]) -> list[tuple[str, list[str]]]:
    """Each unit that a remote was asked for, and the cells of REMOTE_HEAD."""
    return [
        (
            name,
            [
                *(str(counts["hits"]), str(counts["misses"]), human_size(counts["bytes"])),
                *(human_time(counts["milliseconds"] / 1000), str(counts["errors"])),
            ],
        )
        for name, counts in sorted(units.items(), key=lambda unit: (unit[0].find("gfx"), arch_order(unit[0])))
        if any(counts.values())
    ]


def parse_seconds(text: str) -> float:
    """Raises ArgumentTypeError. Without an end (inf, nan) a wait has none."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found < math.inf:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds, such as 30")
    return found
