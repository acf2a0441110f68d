"""What of the file system this user can reach: is a path missing for certain, may a file be read?"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator

#: As of stat(2). With any other one a compiler may say that it cannot open the file, where it would go on without it.
MISSING = (errno.ENOENT, errno.ENOTDIR)
_MOST_LINKS = 40


def may_read(path: str, found: os.stat_result) -> bool:
    """May it be read, by what its status says (this user's file, or root's), or else by what the system says (another
    user's, which an ACL may deny to some)? As `look_allows` of native/state.c."""
    mode, owner = found.st_mode, found.st_uid
    open_to_all = owner == 0 and mode & 0o444 == 0o444
    own = owner == os.geteuid() and mode & stat.S_IRUSR != 0
    return open_to_all or own or os.access(path, os.R_OK, effective_ids=True)


def components(path: str) -> Iterator[str]:
    """The paths at which the kernel looks, one after the other, to find `path` (absolute): each directory on the way,
    and where a link leads (path_resolution(7)). Raises OSError for what it cannot follow."""
    at, rest, links = "/", path.split("/")[::-1], 0
    while rest:
        name = rest.pop()
        if name in ("", "."):
            continue
        step = os.path.dirname(at) if name == ".." else os.path.join(at, name)
        if name != ".." and os.path.islink(step):
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            text = os.readlink(step)
            rest += text.split("/")[::-1]
            at = "/" if text.startswith("/") else at
        else:
            at = step
        yield step


def why_not_missing(path: str) -> str:
    """Why lstat(2) does not find `path` missing, in words; empty if it does."""
    try:
        os.lstat(path)
    except OSError as error:
        return "" if error.errno in MISSING else f"cannot be looked for ({error.strerror})"
    except ValueError:  # no path can have that name
        return ""
    return "now exists"
