"""Programs that workers have installed, by their image: nothing is uploaded, and their commands name them by path.

Whether such a program is that of this machine is asked first, by two actions: what its loader maps for it there
(LD_TRACE_LOADED_OBJECTS, as `inputs/identity` asks here), and the digests of these files and its own. An image that is
named by more than its digest may change, or workers may have several: then the first answer is not that of all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from hipcache.executor.protocol import Program, Workers, hashed
from hipcache.remote.backend import STATUS, TOOLCHAIN, RemoteError
from hipcache.values import dataclass

_HASHES = "/usr/bin/sha256sum"
_TRACE = {"LD_TRACE_LOADED_OBJECTS": "1"}
_MOST = 1000


@dataclass(frozen=True)
class Installed:
    """`digests`: SHA-256 in hexadecimal of the program's own file and of each library, whose name is its key."""

    path: str
    own: str
    digests: Mapping[str, str]


def read(path: str, files: Iterable[str]) -> Installed:
    """What is here. Raises OSError."""
    first, *libraries = files
    digests = {os.path.basename(one): hashed(one).hash for one in libraries}
    return Installed(path, hashed(first).hash, digests)


def checked(workers: Workers, wanted: Installed) -> Program:
    """The program as it is there, if it is the same. Raises RemoteError."""
    try:
        mapped = _mapped(workers.text_of((wanted.path,), _TRACE))
        found = _digests(workers.text_of((_HASHES, wanted.path, *mapped), {}))
    except RemoteError as error:
        if error.kind != STATUS:
            raise
        raise RemoteError(TOOLCHAIN, f"'{wanted.path}' cannot be looked at on its workers: {error}") from error
    there = {os.path.basename(path): found.get(path, "") for path in mapped}
    differing = [name for name in {**wanted.digests, **there} if there.get(name) != wanted.digests.get(name)]
    if found.get(wanted.path) != wanted.own or len(there) != len(mapped):
        differing = [wanted.path]
    if differing:
        raise RemoteError(TOOLCHAIN, f"its workers have another '{differing[0]}' than this machine")
    return Program((wanted.path,), (), {})


def _mapped(text: str) -> list[str]:
    """Of lines such as `libc.so.6 => /lib/libc.so.6 (0x1)` or `/lib64/ld.so (0x2)`."""
    places = [line.rpartition("=>")[2].rpartition("(")[0].strip() for line in text.splitlines()]
    return list(dict.fromkeys(place for place in places if place.startswith("/")))[:_MOST]


def _digests(text: str) -> dict[str, str]:
    """Of lines such as `0123...  /bin/program`, by path."""
    pairs = (line.split("  ", 1) for line in text.splitlines() if "  " in line)
    return {path: digest for digest, path in pairs}
