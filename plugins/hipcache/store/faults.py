"""The faults of a store as a whole: too little space, rights that are missing, mounts in the way; and errors of the
operating system, in words that say what to do.

Space is checked before the work begins, so that no work is done for nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from hipcache.base.errors import StoreError, StoreFull
from hipcache.store.confined import Confined
from hipcache.store.layout import ACTIONS, BLOBS, TMP, random_name

# Less than this is "full": a compile's intermediate files take some megabytes, and a dozen files.
FLOOR_BYTES = 4 << 20
FLOOR_FILES = 16
# The errors of the operating system, and the words of a compiler that passes them on.
ERRORS = (errno.ENOSPC, errno.EDQUOT)
_WORDS = tuple(os.strerror(error).encode() for error in ERRORS)


def lacking(path: str) -> str:
    """The shortage on the disk of `path`, or of the nearest directory above it that is there: "3100 KiB are left" or "5
    files can still be made"; empty if there is enough, or nobody can know."""
    while True:
        try:
            disk = os.statvfs(path)
            break
        except FileNotFoundError:
            if path == os.path.dirname(path):
                return ""
            path = os.path.dirname(path)
        except OSError:
            return ""
    blocks, files = (disk.f_bfree, disk.f_ffree) if os.geteuid() == 0 else (disk.f_bavail, disk.f_favail)
    left = blocks * disk.f_frsize
    if disk.f_blocks and left < FLOOR_BYTES:  # some network file systems know no sizes
        return f"{left >> 10} KiB are left"
    if disk.f_files and files < FLOOR_FILES:  # btrfs has no limit for files
        return f"{files} files can still be made"
    return ""


def tells_of_full_disk(text: bytes) -> bool:
    """Has a program failed for want of room? A quota shows in no other way."""
    return any(words in text for words in _WORDS)


HINTS: Mapping[int, str] = {
    errno.ENOSPC: "free some space, lower HIPCACHE_MAX_SIZE, or set HIPCACHE_DIR to a directory on another disk",
    errno.EDQUOT: "your quota is used up: lower HIPCACHE_MAX_SIZE, or set HIPCACHE_DIR to a directory elsewhere",
    errno.EFBIG: "it exceeds the limit for the size of a file (see 'ulimit -f')",
    errno.EACCES: "set HIPCACHE_DIR to a directory that you may write, or HIPCACHE_READONLY=1 to use this one as it is",
    errno.EPERM: "set HIPCACHE_DIR to a directory that you may write, or HIPCACHE_READONLY=1 to use this one as it is",
    errno.EROFS: "the file system is read-only: set HIPCACHE_READONLY=1, or HIPCACHE_DIR to a directory elsewhere",
    errno.ENOTDIR: "a file or link is where a directory has to be: remove it, or set HIPCACHE_DIR to another place",
    errno.EEXIST: "a file or link is where a directory has to be: remove it, or set HIPCACHE_DIR to another place",
}
# For paths outside the store: the settings of the store do not help there.
NO_HINTS: Mapping[int, str] = {}


@contextmanager
def as_store_error(verb: str, path: str, hints: Mapping[int, str] = HINTS) -> Iterator[None]:
    """Turn an OSError into a StoreError: "cannot `verb` '`path`': why", and what to do about it."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.EEXIST):
            path = _in_the_way(error.filename) or _in_the_way(path) or path
        why = error.strerror or str(error)
        # A full disk below a path outside the store is the compiler's to tell.
        kind = StoreFull if hints is HINTS and error.errno in ERRORS else StoreError
        raise kind(f"cannot {verb} '{path}': {why}", hints.get(error.errno or 0, "")) from error


def _in_the_way(name: object) -> str:
    """The first part of the path `name` that is there and no directory; empty if there is none."""
    path = Path(str(name))
    for part in (*reversed(path.parents), path):
        if part.exists() and not part.is_dir():
            return str(part)
    return ""


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
        with store.open_base() as directory:
            found = os.fstat(directory)
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
    """The error of a write into a store that is there and can be read. (Of one that cannot, each use says why.)"""
    with suppress(OSError), store.open_base() as directory:
        # Effective ids need faccessat2; what a program with other real ids is refused here, it need not do.
        os.stat(".", dir_fd=directory)
        if not os.access(".", os.W_OK | os.X_OK, dir_fd=directory):
            read_only = os.fstatvfs(directory).f_flag & os.ST_RDONLY
            number = errno.EROFS if read_only else errno.EACCES
            return OSError(number, os.strerror(number), store.base)
    return None
