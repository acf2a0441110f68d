"""IREE: commands of iree-compile, and the modules that it makes.

command     the words of a command, those of another kind, and what IREE would silently make otherwise
planner     the one action of a command: its key, and its run under observation
module      a .vmfb as a value, and whether it fits a device (`hipcache iree-check`)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hipcache.app.kinds import Kind

CACHES = {"observed": "hipcache.iree.planner"}
VERBS = {"iree-check": "hipcache.iree.module"}
# By the name of IREE's own package: an index need not have hipcache.
_INSTALL = "pip install iree-base-compiler (in the source directory of hipcache: pip install '.[iree]')"


def kinds() -> tuple[Kind, ...]:
    from hipcache.app.kinds import Kind

    return (
        Kind(
            "hipcache.iree.planner",
            program="iree-compile",
            parser="hipcache.iree.command",
            install=f"install IREE: {_INSTALL}",
        ),
    )
