"""Configure checks, told by the places of their outputs. `native/launcher.c` (`is_check`) tells them by the same."""

from __future__ import annotations

from hipcache import shared


def is_check(path: str) -> bool:
    """Is the object at absolute `path` one of a configure check?"""
    return any(one in path for one in shared.CHECK_DIRECTORIES) or "/" in path.partition(shared.MESON_CHECK)[2]
