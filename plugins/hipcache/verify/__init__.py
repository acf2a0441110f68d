"""Trust, but verify: the entries of a store checked, and objects that it serves compared with fresh ones.

verb         `hipcache verify`: each record and blob checked, or objects compared
comparison   a stored compile, or a hit where it was delivered, with one by the user's own compiler; and the report of a
             difference
"""

from __future__ import annotations

HIT_CHECK = "hipcache.verify.comparison"
VERBS = {"verify": "hipcache.verify.verb"}
# As of `report.statistics.CounterGroup`.
COUNTERS = {
    "name": "verified",
    "field": "verified",
    "counters": ("same", "different", "varying"),
    "text": "hits compared with a fresh compile  {same} same, {different:red different}"
    "{varying:?, {varying} not reproducible by the compiler itself}",
    "meaning": "hits that were recompiled (`HIPCACHE_VERIFY`): `same`, `different`, `varying` (the compiler itself is "
    "not reproducible)",
}
