"""Files that are no regular files: those that can be read only once, or are another one for another process."""

from __future__ import annotations

import os
import stat

from hipcache.disk.special import is_of_kernel


def is_stream(path: str) -> bool:
    """Can `path` (absolute) be read only once, or is it another file for another process (/dev/stdin)?"""
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False  # the compiler says why
    return not regular or is_of_kernel(os.path.normpath(path))


def is_null(path: str) -> bool:
    """Is it the null device, which is empty for whoever reads it?"""
    try:
        found = os.stat(path)
    except OSError:
        return False
    return path == os.devnull and stat.S_ISCHR(found.st_mode) and found.st_rdev == os.makedev(1, 3)
