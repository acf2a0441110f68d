"""Deliver a blob to where the build wants it, as a compiler would have written it there, and checked.

What clang 15 and 19 do with `-o` was measured: a regular file or nothing is replaced by a rename, so is a symbolic
link (the link itself goes, its target stays); what is special, also behind a link, such as /dev/null or a FIFO, is
written into; a directory is an error. Permissions are 0o666 less the umask. The same here.

Bytes are shared with the store where the file system can (FICLONE: btrfs, xfs, bcachefs, overlayfs on them); the clone
is read once to check it: 1.3 ms for 3 MB on xfs where a copy takes 2.8 ms, and no space. Otherwise one loop reads,
hashes and writes. Rejected: copy_file_range and sendfile where blocks cannot be shared: every byte has to come to user
space anyway, to be hashed. Hard links: see layout.py.

The blocks of a copy are allocated before it is written. ext4 sends a file to the disk at once when it is renamed over
another one while its blocks are not allocated yet (mount option auto_da_alloc): 950 us for 4 KB, 2.4 ms for 300 KB.
Allocated first: 40 us and 97 us. Rejected: to unlink the old destination before the rename, as fast, but a reader
can find no file at all.

Known weakness: SIGKILL leaves `.hipcache-*.tmp` beside the destination (clang leaves its own there, too).
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path

from hipcache.base.files import Descriptor, write_all
from hipcache.base.hashing import blake3
from hipcache.store.layout import DamagedEntry, random_name, read_all

FICLONE = 0x40049409  # linux/fs.h; older Pythons have no name for it
CHUNK_BYTES = 1 << 20


def deliver(source: int, digest: str, destination: Path) -> None:
    """Write what can be read from `source` to `destination`. Raises OSError, or DamagedEntry if it is not `digest`.

    On any exception, also KeyboardInterrupt, `destination` is what it was (unless it is special)."""
    if _is_special(destination):
        content = read_all(source)
        if blake3(content).hexdigest() != digest:
            raise DamagedEntry
        _write_into(destination, content)
        return
    temporary = os.path.join(os.path.dirname(destination), f".hipcache-{random_name()}.tmp")
    try:
        # The kernel applies the umask: reading it (os.umask) would change it for the other threads.
        with Descriptor(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)) as target:
            if _clone(source, target):
                found = hash_of(target)
            else:
                _allocate(source, target)
                found = _copy(source, target)
        if found != digest:
            raise DamagedEntry
        os.rename(temporary, destination)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _is_special(destination: Path) -> bool:
    try:
        return not stat.S_ISREG(os.stat(destination).st_mode)
    except OSError:
        return False


def _write_into(destination: Path, content: bytes) -> None:
    with Descriptor(os.open(destination, os.O_WRONLY | os.O_CLOEXEC)) as target:
        write_all(target, content)


def _clone(source: int, target: int) -> bool:
    try:
        fcntl.ioctl(target, FICLONE, source)
    except OSError:
        return False
    return True


def _allocate(source: int, target: int) -> None:
    """Reserve the blocks (see above). What goes wrong here goes wrong again, and is reported, when they are written."""
    size = os.fstat(source).st_size
    if size:
        with suppress(OSError):
            os.posix_fallocate(target, 0, size)


def hash_of(fd: int) -> str:
    """The digest of a file's content."""
    hasher = blake3()
    offset = 0
    while chunk := os.pread(fd, CHUNK_BYTES, offset):
        hasher.update(chunk)
        offset += len(chunk)
    return hasher.hexdigest()


def _copy(source: int, target: int) -> str:
    """Copy, and return the digest of what was written."""
    hasher = blake3()
    while True:
        try:
            chunk = os.read(source, CHUNK_BYTES)
        except OSError as error:
            raise DamagedEntry from error
        if not chunk:
            return hasher.hexdigest()
        hasher.update(chunk)
        write_all(target, chunk)
