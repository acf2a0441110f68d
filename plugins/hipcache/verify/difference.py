"""Two outputs that should be the same: what the store served, and what the compiler makes; kept for who looks into it.

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
from hipcache.inputs.keys import digest_bytes
from hipcache.store.layout import random_name
from hipcache.values import dataclass

_HERE = "reports"
MOST = 8
MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Difference:
    """`output`: the path that a build writes; `archs`: what the command compiles for."""

    output: str
    command: tuple[str, ...]
    directory: str
    archs: tuple[str, ...]
    served: bytes
    fresh: bytes

    def summary(self) -> str:
        """The difference in one line, without the command."""
        archs = f" for {' '.join(self.archs)}" if self.archs else ""
        return (
            f"'{self.output}'{archs}: {len(self.served)} bytes from the store, {len(self.fresh)} from the compiler, "
            f"first difference at byte {first_difference(self.served, self.fresh)}"
        )

    def as_json(self) -> dict[str, object]:
        return {
            "output": self.output,
            "directory": self.directory,
            "command": list(self.command),
            "archs": list(self.archs),
            "bytes": {"served": len(self.served), "fresh": len(self.fresh)},
            "digests": {"served": digest_bytes(self.served), "fresh": digest_bytes(self.fresh)},
            "first_difference": first_difference(self.served, self.fresh),
        }


def first_difference(one: bytes, other: bytes) -> int:
    """The offset of the first byte that differs: the end of the shorter one, where it begins the other."""
    low, high = 0, min(len(one), len(other))
    while low < high:  # by halves: objects have some hundred megabytes
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def archs_of(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """As the command names them."""
    named = [word.partition("=")[2] for word in arguments if word.startswith(("--offload-arch=", "--cuda-gpu-arch="))]
    return tuple(dict.fromkeys(arch for word in named for arch in word.split(",")))


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
