"""The local store on disk: its directories, its action records, and how damage is recognised.

Constraints, in this order:

- A reader never returns a byte that was not put. Disks fill up, processes are killed, power goes, people
  restore half a backup: all of it must look like "absent".
- A hit costs a few system calls per entry: no index to load, no directory to list, no daemon.
- 300,000 entries in one store, on ext4, xfs, btrfs and NFS.
- An object of 100 MB is delivered without copying it where the file system can share blocks.

Layout, version 1 (`KEY` and `DIGEST` are 64 hexadecimal digits, cut after the second)::

    ROOT/v1/actions/KE/Y...     one action record, see below
    ROOT/v1/blobs/DI/GEST...    the content itself, nothing added
    ROOT/v1/tmp/put-RANDOM      an entry while it is written
    ROOT/v1/tmp/work-RANDOM/    the files of one compile; `.lock` inside is locked while it lives
    ROOT/v1/ledger              how much is held (ledger.py)
    ROOT/v1/locks               its byte ranges are the locks, its content tells who holds them (locks.py)
    ROOT/v1/CACHEDIR.TAG        backup programs skip the directory (bford.info/cachedir)

An action record::

    magic    8 bytes   89 "hcA1" 0d 0a 1a    as in PNG: the high bit, CR LF and ctrl-Z reveal text-mode transfers
    digest  32 bytes   BLAKE3 of DOMAIN, the key in ASCII (64 bytes) and the payload
    payload            to the end of the file

The key is part of the digest, so a record that was renamed to another key is damage, too. A length field would add
nothing: a record that is cut or grown at any byte has another digest. Where members of a shared store have a secret,
name, digest and magic are other ones: seal.py.

A blob has no header: only a file that *is* the object can be cloned (FICLONE) to where the build wants it. Its name
is its digest.

Version: an incompatible layout becomes `v2` beside `v1`; neither reads the other, both can be in use at once.

Nothing is synced to disk before the rename. fsync costs 5 to 30 ms per entry, and the worst that a power
loss leaves without it is an empty, short or zero-filled file under a final name, which its digest gives away: it is
dropped at the next read and compiled again. A cache may forget, it must not lie.

Rejected: one database file (SQLite: one writer at a time, blobs cannot be cloned); hard links to the build tree
(a tool that writes into its object writes into the store); compressed blobs (not clonable; file systems can do
it themselves); one directory level of 3 digits (4,096 directories to walk for 300,000 files, 256 give 1,200 each,
which every file system likes).
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from hipcache.store.seal import Seal

VERSION = "v1"
MAGIC = b"\x89hcA1\r\n\x1a"
SEALED_MAGIC = b"\x89hcK1\r\n\x1a"
HEADER_BYTES = len(MAGIC) + 32
DOMAIN = b"hipcache action record 1\0"
TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# The compile cache of hipcache. Everything here can be deleted.\n"
BLOCK = 4096

# What an entry answers when it, not the machine, is at fault. EMFILE or ENOMEM say nothing about the entry.
_DAMAGE = frozenset({errno.EACCES, errno.EPERM, errno.EIO, errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EUCLEAN})


class DamagedEntry(Exception):
    """There is something under the entry's name, and it is not the entry."""


class Layout:
    """The paths of one store, as `str`: joining `pathlib.Path` objects would cost more than opening the file."""

    def __init__(self, root: Path) -> None:
        self.root = os.fspath(root)
        self.base = os.path.join(self.root, VERSION)
        self.actions = os.path.join(self.base, "actions")
        self.blobs = os.path.join(self.base, "blobs")
        self.tmp = os.path.join(self.base, "tmp")
        self.ledger = os.path.join(self.base, "ledger")
        self.locks = os.path.join(self.base, "locks")

    def action(self, key: str) -> str:
        return _entry(self.actions, key)

    def blob(self, digest: str) -> str:
        return _entry(self.blobs, digest)

    def make(self) -> None:
        """Create what is missing, permissions left to the umask. Raises OSError."""
        for directory in (self.actions, self.blobs, self.tmp):
            os.makedirs(directory, exist_ok=True)
        try:
            fd = os.open(os.path.join(self.base, "CACHEDIR.TAG"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return
        try:
            write_all(fd, TAG)
        finally:
            os.close(fd)


def _entry(directory: str, name: str) -> str:
    """Raises ValueError for a name that is no digest: it must never become a path out of the store."""
    if len(name) != 64 or name.strip("0123456789abcdef"):
        raise ValueError(f"not a digest of 64 lower-case hexadecimal digits: '{name}'")
    return f"{directory}/{name[:2]}/{name[2:]}"


def charge(size: int) -> int:
    """Bytes that a file of `size` bytes takes from the bound: whole blocks, as on disk.

    Not `st_blocks`: with delayed allocation and compression it changes after the file was counted."""
    return -(-size // BLOCK) * BLOCK


def pack_action(name: str, payload: bytes, seal: Seal) -> bytes:
    """`name`: that of its file, as `seal` gives it."""
    return _header(name, payload, seal) + payload


def unpack_action(name: str, record: bytes, seal: Seal) -> bytes:
    """The payload. Raises DamagedEntry if `record` is not the whole record of `name`."""
    payload = record[HEADER_BYTES:]
    if record[:HEADER_BYTES] != _header(name, payload, seal):
        raise DamagedEntry
    return payload


def is_sealed(record: bytes) -> bool:
    """Is it a record of those who have a secret?"""
    return record.startswith(SEALED_MAGIC)


def _header(name: str, payload: bytes, seal: Seal) -> bytes:
    magic = SEALED_MAGIC if seal.secret else MAGIC
    return magic + seal.digest(b"".join([DOMAIN, name.encode("ascii"), payload]))


def open_entry(path: str) -> int:
    """A file descriptor to read. Raises FileNotFoundError (and other OSErrors of the machine), or DamagedEntry.

    O_NONBLOCK, since opening a FIFO would wait for its writer."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in _DAMAGE:
            raise DamagedEntry from error
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise DamagedEntry
    return fd


def read_all(fd: int) -> bytes:
    """The whole content. Raises DamagedEntry if the disk cannot read it."""
    try:
        size = os.fstat(fd).st_size
        content = os.read(fd, size + 1)
        if len(content) == size:
            return content
        parts = [content]
        while part := os.read(fd, 1 << 20):
            parts.append(part)
        return b"".join(parts)
    except OSError as error:
        raise DamagedEntry from error


def write_all(fd: int, content: bytes) -> None:
    """Raises OSError. One call of write(2) moves 2 GiB at most, and less at a size limit."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]


def discard(path: str) -> None:
    """Remove a file, or a directory in its place. Raises OSError."""
    try:
        os.unlink(path)
    except IsADirectoryError:
        remove_tree(path)


def remove_tree(path: str) -> None:
    """Remove a directory as far as possible. Raises nothing."""
    from shutil import rmtree  # 4 ms to import, and hits never come here

    rmtree(path, ignore_errors=True)


def listing(directory: str) -> list[os.DirEntry[str]]:
    """What is in `directory`, nothing if there is none. Raises other OSErrors."""
    try:
        with os.scandir(directory) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []


def random_name() -> str:
    """Different for all threads, processes, hosts and containers: a process id would not be."""
    return os.urandom(12).hex()
