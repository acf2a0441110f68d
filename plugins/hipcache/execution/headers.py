"""The headers of a precompiled preamble: what it depends on, and what is known of them."""

from __future__ import annotations

import os
from collections.abc import Iterable

from hipcache.disk.inflating import pack_json, unpack_json
from hipcache.inputs.observing import Observed, plain
from hipcache.inputs.readset import ReadSet
from hipcache.making.undefined import Functions
from hipcache.values import dataclass, replace

_LISTS = ("opened", "there", "directories", "absent", "links")
_FUNCTIONS = ("names", "in_c")


@dataclass(frozen=True)
class Headers:
    """The inputs of a precompiled preamble: the files that were `read`, in clang's order, all paths that were looked
    at, and these as a read set (None until it is known). `devices`: if the preamble is the host's, the functions that
    they declare for the device."""

    read: tuple[str, ...]
    observed: Observed
    reads: ReadSet | None
    devices: Functions = Functions()

    def sought(self, absent: Iterable[str]) -> Headers:
        """The same where these paths were looked at, too, and nothing was there."""
        return replace(self, observed=self.observed.joined(Observed(absent=set(map(plain, absent)))))

    def pack(self) -> bytes:
        """But for the read set. Zlib-compressed JSON: the lists of `Observed`, "read", and the names of functions."""
        lists = {name: sorted(getattr(self.observed, name)) for name in _LISTS}
        lists |= {name: sorted(os.fsdecode(one) for one in getattr(self.devices, name)) for name in _FUNCTIONS}
        return pack_json({**lists, "read": self.read})

    @classmethod
    def unpack(cls, packed: bytes) -> Headers:
        """Raises ValueError for anything that `pack` did not write."""
        try:
            found = unpack_json(packed)
            opened, there, directories, absent, links = (set(map(str, found[name])) for name in _LISTS)
            devices = Functions(*(frozenset(map(os.fsencode, found[name])) for name in _FUNCTIONS))
            seen = Observed(opened, there, directories, absent, links)
            return cls(tuple(map(str, found["read"])), seen, None, devices)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a list of headers: {error}") from error
