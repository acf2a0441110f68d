"""IREE: commands of iree-compile, and the modules that it makes.

command     the words of a command, and those of another kind, which pass through
targets     what a command asks for and IREE would silently make otherwise
script      which program compiles, behind the script of IREE's package
planner     the one action of a command, and its key
process     runs it under observation, which gives its trace
results     finds its result by what it was observed to read
module      a .vmfb as a value
fit         whether it fits a device
dlpack      which buffers the run time hands on
verb        `hipcache iree-check`
"""

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
