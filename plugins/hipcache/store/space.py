"""The free space on the disk of a store: checked before the work begins, so that no work is done for nothing."""

from __future__ import annotations

import errno
import os

# Less than this is "full": a compile's intermediate files take some megabytes, and a dozen files.
FLOOR_BYTES = 4 << 20
FLOOR_FILES = 16
# The errors of the operating system, and the words of a compiler that passes them on.
ERRORS = (errno.ENOSPC, errno.EDQUOT)
_WORDS = tuple(os.strerror(error).encode() for error in ERRORS)


def lacking(path: str) -> str:
    """The shortage on the disk of `path`, or of the nearest directory above it that is there: "3.1 MiB are left" or "5
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
        return f"{left / (1 << 20):.1f} MiB are left"
    if disk.f_files and files < FLOOR_FILES:  # btrfs has no limit for files
        return f"{files} files can still be made"
    return ""


def tells_of_full_disk(text: bytes) -> bool:
    """Has a program failed for want of room? A quota shows in no other way."""
    return any(words in text for words in _WORDS)
