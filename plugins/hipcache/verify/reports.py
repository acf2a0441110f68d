"""Reports: what the store served and what the compiler made instead, kept for who looks into it.

    <HIPCACHE_DIR>/v2/reports/<time>-<random>/report.json    the command, sizes, digests (`Difference.as_json`)
                                              served, fresh  the two outputs, where both are not too large

At most MOST reports of together MOST_BYTES are kept, the newest.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from hipcache import __version__
from hipcache.disk.confined import Confined
from hipcache.store.layout import random_name
from hipcache.verify.difference import Difference

_HERE = "reports"
MOST = 8
MOST_BYTES = 64 << 20


def keep(root: Path, difference: Difference, now: float) -> Path | None:
    """The directory of the report in the store at `root`; None if it cannot be written. `now`: seconds of the
    epoch."""
    store = Confined(root)
    report = f"{_HERE}/{int(now * 1e9):020d}-{random_name()}"
    told = {"version": __version__, "when": now, **difference.as_json()}
    small = len(difference.served) + len(difference.fresh) <= MOST_BYTES // 2
    outputs = {"served": difference.served, "fresh": difference.fresh} if small else {}
    try:
        store.make((_HERE,))
        store.make_private_directory(report)
        for name, content in {**outputs, "report.json": json.dumps(told, indent=2).encode()}.items():
            store.write(f"{report}/{name}", content)
        _bound(store)
    except OSError:
        store.remove(report)
        return None
    return Path(store.path(report))


def _bound(store: Confined) -> None:
    """Remove the oldest reports until the others are few and small enough."""
    held = 0
    for number, report in enumerate(sorted((name for name, _ in store.listing(_HERE)), reverse=True)):
        held += _bytes_in(store, f"{_HERE}/{report}")
        if number >= MOST or held > MOST_BYTES:
            store.remove(f"{_HERE}/{report}")


def _bytes_in(store: Confined, report: str) -> int:
    with suppress(OSError):
        return sum(status.st_size for _, status in store.listing(report))
    return 0
