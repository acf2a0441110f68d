"""Two outputs that should be the same: what the store served, and what the compiler makes."""

from __future__ import annotations

from hipcache.inputs.keys import digest_bytes
from hipcache.values import dataclass


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
