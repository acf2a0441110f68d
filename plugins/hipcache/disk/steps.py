"""One step down a path in a store: from a descriptor of a directory to one of a directory in it."""

from __future__ import annotations

import os

STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def step(directory: int, part: str) -> int:
    """A descriptor of the directory `part` in that one, which is closed. Raises OSError."""
    try:
        return os.open(part, STEP, dir_fd=directory)
    finally:
        os.close(directory)
