"""Who may read and write what lies in a store.

A store is as open as its directory v1, which is made private (0700) unless HIPCACHE_UMASK or the setgid
bit of STORE says otherwise. What is made later has the permissions of its directory, whatever the umask of the process.
Who may only read gets no lock file (0600), as whoever can open one can hold it. What root makes in the store of a user
belongs to the user.
"""

from __future__ import annotations

import os
import stat

PRIVATE = 0o700


def directory_mode(above: int, umask: int | None) -> int:
    """The mode of a new directory in one of the mode `above`."""
    given = above if umask is None else ~umask
    return given & 0o777 | PRIVATE | above & stat.S_ISGID


def settle(fd: int, mode: int, above: os.stat_result) -> None:
    """Give what was made its permissions, and its owner where root works in the store of a user."""
    found = os.fstat(fd)
    if stat.S_IMODE(found.st_mode) & 0o2777 != mode:
        os.fchmod(fd, mode)
    if found.st_uid == 0 and above.st_uid != 0:
        os.fchown(fd, above.st_uid, -1)


def for_writers(mode: int) -> int:
    """The mode that lets those who may write read and write."""
    writers = mode & 0o222 | 0o200
    return writers | writers << 1


def close_to_readers(directory: int, fd: int) -> None:
    """A lock file of an earlier version could be opened by all who may read."""
    found = os.fstat(fd)
    if found.st_uid == os.geteuid() and found.st_mode & 0o044 & ~for_writers(os.fstat(directory).st_mode):
        os.fchmod(fd, for_writers(found.st_mode & 0o666))
