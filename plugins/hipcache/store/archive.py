"""An archive of entries of a store: a file that `hipcache export` writes, and `hipcache import` reads.

It is a POSIX tar (ustar), packed by zstd or gzip, so that everybody can look into it; each member is an entry as in
a file of its own in a store (layout.py), under the name that it had in stores of version 1:

    v1/blobs/DI/GEST...     contents first, so that no record of a cut archive names one that is missing
    v1/actions/KE/Y...      records

Both sorted by name; owner 0, mode 0644, and the entry's last use as its time: of the same entries comes the same tar.

Whoever made the archive may have put anything into it. So it is read block by block, and nothing is unpacked to a path:
a member is a regular file with the name of an entry and of limited size, or the reading ends there. Extended headers,
with which a tar can ask for any amount of memory, are not among them. Whether a content has its digest, and what is
done with it, the reader's caller decides.

zstd is the package `zstandard` (the extra `zstd`), which is loaded only here. Where it is missing, a file
must be named .tar.gz: then its name tells what is in it.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from hipcache.base.errors import HipcacheError
from hipcache.base.files import naming
from hipcache.base.patterns import pattern
from hipcache.store.layout import ACTIONS, BLOBS, HEADER_BYTES, random_name

# Bytes of a content that travels, as with a remote, and of a record: each is held in memory.
MOST_CONTENT, MOST_RECORD = 256 << 20, 16 << 20
VERSION = "v1"
ZSTD, GZIP = ".tar.zst", ".tar.gz"
_MAGIC = {b"\x28\xb5\x2f\xfd": ZSTD, b"\x1f\x8b": GZIP}
_NAME = pattern(rf"{VERSION}/({BLOBS}|{ACTIONS})/([0-9a-f]{{2}})/([0-9a-f]{{62}})")
# A packer may ask for so much memory to unpack: more than zstd's levels up to 19 do.
_MOST_WINDOW = 1 << 27
# In the eleven octal digits of a header: the year 2242.
_MOST_TIME = 8**11 - 1
_NO_ZSTD = "install the Python package: pip install zstandard"


class ArchiveEntry(NamedTuple):
    """`tree`: "blobs" or "actions"; `name`: 64 hexadecimal digits; `used`: seconds since the epoch."""

    tree: str
    name: str
    used: int
    content: bytes


def write(path: Path, entries: Iterable[ArchiveEntry]) -> int:
    """Make the file, which appears whole. The number of entries. Raises HipcacheError, OSError."""
    count = 0
    with _to_write(path) as out:
        for entry in entries:
            member = tarfile.TarInfo(f"{VERSION}/{entry.tree}/{entry.name[:2]}/{entry.name[2:]}")
            member.size, member.mtime = len(entry.content), min(max(0, entry.used), _MOST_TIME)
            out.write(member.tobuf(tarfile.USTAR_FORMAT))
            out.write(entry.content)
            out.write(bytes(-len(entry.content) % tarfile.BLOCKSIZE))
            count += 1
        out.write(bytes(2 * tarfile.BLOCKSIZE))
    return count


def read(path: Path) -> Iterator[ArchiveEntry]:
    """The entries, as the file has them: nothing in them is checked but names and sizes. Raises HipcacheError if it
    is no archive of hipcache, or not a whole one; OSError."""
    with _to_read(path) as stream:
        while True:
            try:
                block = _take(stream, tarfile.BLOCKSIZE, path)
                if not block.strip(b"\0"):
                    return
                member = tarfile.TarInfo.frombuf(block, "ascii", "strict")
            except (tarfile.HeaderError, ValueError) as error:
                raise HipcacheError(f"'{path}' is no archive of hipcache: {error}", _HINT) from error
            found = _NAME.fullmatch(member.name)
            if not found or member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
                shown = ascii(member.name)[:100]
                raise HipcacheError(f"'{path}' is no archive of hipcache: {shown} in it is no entry of a store", _HINT)
            if not 0 <= member.size <= (MOST_CONTENT if found[1] == BLOBS else MOST_RECORD + HEADER_BYTES):
                raise HipcacheError(
                    f"'{path}' is no archive of hipcache: '{member.name}' says that it has {member.size} bytes", _HINT
                )
            content = _take(stream, member.size, path)
            _take(stream, -member.size % tarfile.BLOCKSIZE, path)
            yield ArchiveEntry(found[1], found[2] + found[3], max(0, int(member.mtime)), content)


_HINT = "import a file that 'hipcache export' has made"


def _take(stream: IO[bytes], size: int, path: Path) -> bytes:
    """Raises HipcacheError if there are not so many bytes."""
    parts, left = [], size
    while left and (part := stream.read(min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    if left:
        raise HipcacheError(f"'{path}' is cut: it ends in the middle", "make or copy it again")
    return b"".join(parts)


@contextmanager
def _to_write(path: Path) -> Iterator[IO[bytes]]:
    name = path.name
    if name.endswith((ZSTD, ".tzst")):
        zstandard = _zstandard(f"cannot write '{path}'", f", or name the file '{name.split('.')[0]}{GZIP}'")
    elif not name.endswith((GZIP, ".tgz")):
        raise HipcacheError(f"'{path}' does not say how it is to be packed", f"name it FILE{ZSTD} or FILE{GZIP}")
    else:
        zstandard = None
    temporary = path.with_name(f".{name}.{random_name()}")
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except OSError as error:
        error.filename = os.fspath(path)
        raise
    try:
        with naming(path), open(fd, "wb") as file:
            # Level 3 of both tools: objects are sent, and seldom kept for long.
            packed: Any = (
                zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(file, closefd=False)
                if zstandard
                else gzip.GzipFile("", "wb", 3, file, mtime=0)
            )
            with packed:
                yield packed
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


@contextmanager
def _to_read(path: Path) -> Iterator[IO[bytes]]:
    with open(path, "rb") as file:
        magic = file.read(4)
        file.seek(0)
        kind = next((kind for start, kind in _MAGIC.items() if magic.startswith(start)), "")
        if not kind:
            raise HipcacheError(f"'{path}' is no archive of hipcache: it is packed neither by zstd nor by gzip", _HINT)
        zstandard = _zstandard(f"cannot read '{path}'") if kind == ZSTD else None
        faults: tuple[type[Exception], ...] = (zlib.error, EOFError, gzip.BadGzipFile)
        stream: Any = gzip.GzipFile(fileobj=file)
        if zstandard:
            faults = (zstandard.ZstdError,)
            stream = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW).stream_reader(file)
        try:
            yield stream
        except faults as error:
            raise HipcacheError(f"'{path}' is damaged: {error}", "make or copy it again") from error


def _zstandard(what: str, besides: str = "") -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise HipcacheError(f"{what}: zstd is not to be had", f"{_NO_ZSTD}{besides}") from error
    return zstandard
