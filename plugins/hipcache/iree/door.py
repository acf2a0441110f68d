"""What IREE adds: commands of iree-compile, results by what they were observed to read, and a check of modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hipcache.loop.kinds import Kind

CACHES = {"observed": "hipcache.iree.results"}
VERBS = {"iree-check": "hipcache.iree.verb"}
# By the name of IREE's own package: an index need not have hipcache.
_INSTALL = "pip install iree-base-compiler (in the source directory of hipcache: pip install '.[iree]')"


def kinds() -> tuple[Kind, ...]:
    from hipcache.loop.kinds import Kind

    return (
        Kind(
            "hipcache.iree.planner",
            program="iree-compile",
            parser="hipcache.iree.command",
            install=f"install IREE: {_INSTALL}",
        ),
    )
