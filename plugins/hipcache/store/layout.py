"""The local store on disk: its directories, its action records, and how damage is recognised.

Constraints, in this order:

- A reader never returns a byte that was not put. Disks fill up, processes are killed, power goes, people
  restore half a backup: all of it must look like "absent".
- A hit costs a few system calls per entry: no index to load, no directory to list, no daemon.
- 300,000 entries in one store, on ext4, xfs, btrfs and NFS.
- An object of 100 MB is delivered without copying it where the file system can share blocks.

Layout, version 2 (`KEY` and `DIGEST` are 64 hexadecimal digits)::

    ROOT/v2/packs/...           the entries of a compile that has ended (packs.py)
    ROOT/v2/actions/KEY         one action record, see below
    ROOT/v2/blobs/DIGEST        the content itself, nothing added
    ROOT/v2/tmp/put-RANDOM      an entry while it is written
    ROOT/v2/tmp/work-RANDOM/    the files of one compile; `.lock` inside is locked while it lives
    ROOT/v2/tmp/gone-RANDOM     what `clear` has moved away, while it is removed
    ROOT/v2/tools/DIGEST        of versions that had no action for what is remembered of tools
    ROOT/v2/history/OBJ/CMD     the last compiles of an object (report/history.py)
    ROOT/v2/statistics/         what all compiles came to (report/statistics.py, store_history.py, build.py)
    ROOT/v2/ledger              how much is held (ledger.py)
    ROOT/v2/locks               its byte ranges are the locks, its content tells who holds them (locks.py)
    ROOT/v2/CACHEDIR.TAG        backup programs skip the directory (bford.info/cachedir)

An action record::

    magic    8 bytes   89 "hcA1" 0d 0a 1a    as in PNG: the high bit, CR LF and ctrl-Z reveal text-mode transfers
    digest  32 bytes   BLAKE3 of DOMAIN, the key in ASCII (64 bytes) and the payload
    payload            to the end of the file

The key is part of the digest, so a record that was renamed to another key is damage, too. A length field would add
nothing: a record that is cut or grown at any byte has another digest. Where members of a shared store have a secret,
name, digest and magic are other ones: seal.py.

A blob has no header: only a file that *is* the object can be cloned (FICLONE) to where the build wants it. Its name
is its digest.

Version: an incompatible layout gets another number; neither reads the other, both can be in use at once. Version 1
(hipcache 1.0) had no packs, and 256 directories in `actions` and in `blobs`.

Nothing is synced to disk before the rename. fsync costs 5 to 30 ms per entry, and the worst that a power
loss leaves without it is an empty, short or zero-filled file under a final name, which its digest gives away: it is
dropped at the next read and compiled again. A cache may forget, it must not lie.

Rejected: one database file (SQLite: one writer at a time, and no C library that a static launcher of 100 KB could
have); hard links to the build tree (a tool that writes into its object writes into the store); directories for the
first digits of entries: each takes a block, and few entries are outside of packs.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress

from hipcache.base import shared
from hipcache.base.files import Descriptor
from hipcache.base.keys import is_digest
from hipcache.base.patterns import pattern
from hipcache.store.confined import Confined, is_strange
from hipcache.store.seal import Seal

MAGIC = b"\x89hcA1\r\n\x1a"
SEALED_MAGIC = b"\x89hcK1\r\n\x1a"
HEADER_BYTES = len(MAGIC) + 32
DOMAIN = shared.terminated(shared.ACTION_DOMAIN)
TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n# The compile cache of hipcache. Everything here can be deleted.\n"
BLOCK = 4096
# Seconds after which a use is noted again, at direct hits (native/direct/output.c): an entry may have been used that
# long after its time.
USE_STEP = 3600
# Hosts that share a store disagree about the time, but not by so many seconds.
_FUTURE = 24 * 3600

ACTIONS, BLOBS, PACKS, TOOLS = "actions", "blobs", "packs", "tools"
HISTORY, STATISTICS, TMP = "history", "statistics", "tmp"
LEDGER, LOCKS = "ledger", "locks"
_TAG = "CACHEDIR.TAG"
_OWN_NAME = pattern(r"[0-9a-f]{12,64}|index|(?:put|work|gone)-.*")

# Errors that mean that the entry, not the machine, is at fault. EMFILE or ENOMEM say nothing about the entry.
_DAMAGE = frozenset({errno.EACCES, errno.EPERM, errno.EIO, errno.EUCLEAN})


class DamagedEntry(Exception):
    """There is something under the entry's name, and it is not the entry."""


def make(confined: Confined) -> None:
    """Create what is missing. Raises OSError."""
    confined.make((ACTIONS, BLOBS, PACKS, TMP))
    with suppress(FileExistsError):
        confined.write(_TAG, TAG)


def is_made(confined: Confined) -> bool:
    """Has `make` made it, or is at least nothing of others in its directories? Raises OSError."""
    try:
        confined.status(_TAG)
    except FileNotFoundError:
        names = [last for top in (ACTIONS, BLOBS, PACKS, TOOLS, HISTORY, TMP) for last, _ in confined.listing(top)]
        return all(map(_OWN_NAME.fullmatch, names))
    return True


def action_name(key: str) -> str:
    return _entry(ACTIONS, key)


def blob_name(digest: str) -> str:
    return _entry(BLOBS, digest)


def digests(confined: Confined, tree: str) -> Iterator[tuple[str, os.stat_result]]:
    """(what names it, status) of each record (`tree`: ACTIONS) or content (BLOBS) in a file of its own; what else lies
    there is left out."""
    for last, status in confined.listing(tree):
        if is_digest(last) and stat.S_ISREG(status.st_mode):
            yield last, status


def _entry(directory: str, name: str) -> str:
    """Raises ValueError for a name that is no digest: it must never become a path out of the store."""
    if not is_digest(name):
        raise ValueError(f"not a digest of 64 lower-case hexadecimal digits: '{name}'")
    return f"{directory}/{name}"


def charge(name: str, size: int) -> int:
    """Bytes that a file of `size` bytes takes from the limit: whole blocks, as on disk. A record of the history has a
    directory of its own.

    Not `st_blocks`: with delayed allocation and compression it changes after the file was counted."""
    return -(-size // BLOCK) * BLOCK + (BLOCK if name.startswith(f"{HISTORY}/") else 0)


def last_use(mtime_ns: int, now: float) -> int:
    """When an entry of that time was last used, in nanoseconds; 0 if its time is far in the future: a clock was wrong
    when it was used, and not since, and it would stay for ever. `now`: seconds since the epoch."""
    return mtime_ns if mtime_ns <= (now + _FUTURE) * 1e9 else 0


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


def open_entry(confined: Confined, name: str, most: int) -> Descriptor:
    """A file descriptor to read. Raises FileNotFoundError (and other OSErrors of the machine), or DamagedEntry."""
    try:
        return confined.open(name, most)
    except OSError as error:
        if is_strange(error) or error.errno in _DAMAGE:
            raise DamagedEntry from error
        raise


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


def random_name() -> str:
    """Different for all threads, processes, hosts and containers: a process id would not be."""
    return os.urandom(12).hex()
