"""The standard input of a command that reads its source there: read once, and there again for whoever runs it."""

from __future__ import annotations

import os

from hipcache.errors import PassThrough
from hipcache.inputs.keys import digest_bytes

_AT_ONCE = 1 << 20
_AGAIN = "/proc/self/fd/0"


def keep() -> None:
    """Put all of it into memory, as this process' standard input, to be read from its beginning. Raises OSError before
    anything is read, if there is no such memory."""
    kept = os.memfd_create("standard input", 0)
    try:
        while piece := os.read(0, _AT_ONCE):
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(kept, rest) :]
        os.lseek(kept, 0, os.SEEK_SET)
        os.dup2(kept, 0)
    finally:
        os.close(kept)


def content() -> tuple[bytes, str]:
    """The content that `keep` has kept, and its digest. Raises PassThrough."""
    try:
        with open(_AGAIN, "rb") as file:
            kept = file.read()
        return kept, digest_bytes(kept)
    except OSError as error:
        raise PassThrough("standard_streams", f"it cannot be read again: {error.strerror}") from error
