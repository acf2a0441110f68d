"""The order of offload arches for people: gfx906, gfx90a, gfx942, gfx1030."""

from __future__ import annotations

import re

_NAME = re.compile(r"gfx(?:(?P<major>[0-9]+)(?P<minor>[0-9a-f])(?P<step>[0-9a-f])|(?P<family>[0-9]+)(?P<rest>-.*))$")


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
