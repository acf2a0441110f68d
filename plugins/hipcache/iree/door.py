"""What IREE adds: commands of iree-compile, results by what they were observed to read, and a check of modules."""

from __future__ import annotations

from hipcache.loop.kinds import Kind
from hipcache.model import Cache

KINDS = (
    Kind(
        "hipcache.iree.planner",
        program="iree-compile",
        parser="hipcache.iree.command",
        # By the name of IREE's own package: an index need not have hipcache.
        install="install IREE: pip install iree-base-compiler "
        "(in the source directory of hipcache: pip install '.[iree]')",
    ),
)
CACHES = {Cache.OBSERVED: "hipcache.iree.results"}
VERBS = {"iree-check": "hipcache.iree.verb"}
