"""Offload arches for people: their order (gfx906, gfx90a, gfx942, gfx1030), also among units, and what remotes had of
each."""

from __future__ import annotations

from collections.abc import Mapping

from hipcache.cli.screen import human_size, human_time
from hipcache.patterns import pattern
from hipcache.report.outcome import HOST, LINK
from hipcache.report.sums import Tally

_NAME = pattern(r"gfx(?:(?P<major>[0-9]+)(?P<minor>[0-9a-f])(?P<step>[0-9a-f])|(?P<family>[0-9]+)(?P<rest>-.*))$")


def order(arch: str) -> tuple[int, str, str]:
    """A sort key. The last two digits of a name are hexadecimal (minor, stepping), those before them the
    major version; a family (gfx9-generic, gfx10-3-generic) goes before its members."""
    name, _, features = arch.partition(":")
    match = _NAME.fullmatch(name)
    if not match:
        return (-1, name, features)
    if match["family"]:
        return (int(match["family"]), match["rest"], features)
    return (int(match["major"]), match["minor"] + match["step"], features)


def units(tallies: Mapping[str, Tally]) -> list[tuple[str, Tally]]:
    """The units that were asked for: the architectures in their order, then the host and the link."""
    asked = [(name, tally) for name, tally in tallies.items() if tally.hits or tally.misses]
    return sorted(asked, key=lambda unit: (unit[0] in (HOST, LINK), unit[0] == LINK, order(unit[0])))


OF_REMOTE = ("fetched", "not there", "bytes", "time", "faults")


def of_remote(units: Mapping[str, Mapping[str, int]]) -> list[tuple[str, list[str]]]:
    """Each unit that a remote was asked for, and the cells of OF_REMOTE."""
    return [
        (
            name,
            [
                *(str(counts["hits"]), str(counts["misses"]), human_size(counts["bytes"])),
                *(human_time(counts["milliseconds"] / 1000), str(counts["errors"])),
            ],
        )
        for name, counts in sorted(units.items(), key=lambda unit: (unit[0].find("gfx"), order(unit[0])))
        if any(counts.values())
    ]
