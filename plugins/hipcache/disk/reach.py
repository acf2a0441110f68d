"""What of the file system this user can reach: is a path missing for certain?"""

from __future__ import annotations

import errno
import os

#: As of stat(2). With any other one a compiler may say that it cannot open the file, where it would go on without it.
MISSING = (errno.ENOENT, errno.ENOTDIR)


def why_not_missing(path: str) -> str:
    """Why lstat(2) does not find `path` missing, in words; empty if it does."""
    try:
        os.lstat(path)
    except OSError as error:
        return "" if error.errno in MISSING else f"cannot be looked for ({error.strerror})"
    except ValueError:  # no path can have that name
        return ""
    return "now exists"
