"""Keys: named inputs in, one digest out, and the named inputs stay readable.

A key is the BLAKE3 digest (256 bits, 64 hexadecimal digits) of a list of (name, value) pairs. Each
string is preceded by its length, so that no two lists give the same bytes (`-I -O2` is not `-I-O2`;
ccache's `hash.hpp` uses tagged delimiters for the same reason). The pairs themselves are kept for
`hipcache explain`, which compares those of two compiles.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from hipcache.base import interruptible, shared
from hipcache.base.hashing import blake3
from hipcache.base.values import dataclass

# In every key: raise it when the meaning of a key or of a stored record changes.
FORMAT = shared.KEY_FORMAT

_LARGE = 1 << 20
_NULL = os.makedev(1, 3)  # /dev/null


@dataclass(frozen=True)
class Key:
    """A kind of job ("device", "backend", "host", "object") and everything that can change its output."""

    kind: str
    inputs: tuple[tuple[str, str], ...]

    @cached_property
    def digest(self) -> str:
        texts = (FORMAT, self.kind, *(part for pair in self.inputs for part in pair))
        raws = (text.encode("utf-8", "surrogateescape") for text in texts)
        return blake3(b"".join(b"%d:%b" % (len(raw), raw) for raw in raws)).hexdigest()


def make_key(kind: str, inputs: Iterable[tuple[str, str]]) -> Key:
    return Key(kind, tuple(inputs))


def digest_bytes(content: bytes) -> str:
    return interruptible.run(lambda: blake3(content).hexdigest(), size=len(content))


def is_digest(text: object) -> bool:
    """Has it the form of a digest of 256 bits, as text?"""
    return isinstance(text, str) and len(text) == 64 and not text.strip("0123456789abcdef")


def _open_file(path: str, flags: int) -> int:
    """Raises OSError."""
    fd = os.open(path, flags | os.O_NONBLOCK)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) and found.st_rdev != _NULL:
        os.close(fd)
        number = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
        raise OSError(number, os.strerror(number), path)
    return fd


def digest_file(path: Path | str) -> str:
    """Digest of a file's content. A large one is mapped instead of read. Raises OSError, also for what has no end: who
    has made a read set may have put a FIFO or a device into it."""
    with open(path, "rb", opener=_open_file) as file:
        head = file.read(_LARGE)
        if len(head) < _LARGE:
            return digest_bytes(head)
    hasher = blake3()
    interruptible.run(lambda: hasher.update_mmap(path), size=_LARGE)
    return hasher.hexdigest()
