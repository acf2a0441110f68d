"""Who may do what in a store as a whole."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from hipcache.disk.confined import Confined
from hipcache.store.layout import ACTIONS, BLOBS, TMP, random_name


def why_not_created(store: Confined) -> OSError | None:
    """The error of the first write into a store that is not there: rights do not tell it of /proc, for example. A
    directory is made in its place, and removed."""
    try:
        base = Path(store.base)
        nearest = next(path for path in (base, *base.parents) if path.exists())
        if nearest != base:
            import tempfile  # 5 ms, and only here

            os.rmdir(tempfile.mkdtemp(prefix=".hipcache-", dir=nearest))
    except OSError as error:
        return error
    return None


def is_private(store: Confined) -> bool:
    """May nobody else (but root) write there?"""
    try:
        directory = store.open_base()
        try:
            found = os.fstat(directory)
        finally:
            os.close(directory)
    except OSError:
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022


def divided(store: Confined) -> str:
    """The directory into which nothing can be moved from tmp/, as one of the two is on another file system, or mounted;
    empty if there is none. Nothing is changed."""
    nothing = f"none-{random_name()}"
    for directory in (BLOBS, ACTIONS):
        try:
            if store.status(TMP).st_dev != store.status(directory).st_dev:
                return directory
            # The mounts are compared before the file is looked for.
            store.rename(f"{TMP}/{nothing}", f"{directory}/{nothing}")
        except OSError as error:
            if error.errno == errno.EXDEV:
                return directory
    return ""


def why_not_writable(store: Confined) -> OSError | None:
    """The error of a write into a store that is there and can be read."""
    try:
        directory = store.open_base()
    except OSError:
        return None
    try:
        # Effective ids need faccessat2; what a program with other real ids is refused here, it need not do.
        os.stat(".", dir_fd=directory)
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=directory):
            read_only = os.fstatvfs(directory).f_flag & os.ST_RDONLY
            number = errno.EROFS if read_only else errno.EACCES
            return OSError(number, os.strerror(number), store.base)
    except OSError:
        return None  # it cannot be read either: each use says why
    finally:
        os.close(directory)
    return None
