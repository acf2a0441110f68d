"""Open files, and files that are written whole or not at all, as a compiler writes its output."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Descriptor(int):
    """The descriptor of an open file, which the end of a `with` closes."""

    __slots__ = ()

    def __enter__(self) -> Descriptor:
        return self

    def __exit__(self, *raised: object) -> None:
        os.close(self)


def write_all(fd: int, content: bytes) -> None:
    """Raises OSError. One call of write(2) moves 2 GiB at most, and less at a size limit."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError that names no file, as that of a write does, names this one."""
    try:
        yield
    except OSError as error:
        if not error.filename:
            error.filename = os.fspath(path)
        raise


def write_whole(path: Path, content: bytes, *, through_links: bool = False, as_directory: bool = False) -> None:
    """Write beside `path` and rename; into it if it is special (/dev/null). `through_links`: also if it is a symbolic
    link, or another file in its place would be told from it (hard links, its owner and mode), as clang writes a
    dependency file. `as_directory`: whoever may enter the directory may read it, whatever the umask is; it has that
    group, and that owner if root writes it, as far as that can be. Raises OSError, which names a file."""
    with naming(path):
        _write_whole(path, content, through_links=through_links, as_directory=as_directory)


def _write_whole(path: Path, content: bytes, *, through_links: bool, as_directory: bool) -> None:
    if _is_special(path) or (through_links and path.is_symlink()):
        with open(path, "wb") as special:
            special.write(content)
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.hipcache")
    try:
        with open(part, "xb") as file:
            if through_links and _shows(os.fstat(file.fileno()), path):
                part.unlink()
                with open(path, "wb") as old:
                    old.write(content)
                return
            if content:
                # ext4 flushes a file that is renamed over another one, unless its blocks are there already.
                with suppress(OSError):
                    os.posix_fallocate(file.fileno(), 0, len(content))
            file.write(content)
            if as_directory:
                _open_to_all(file.fileno(), path)
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def _open_to_all(fd: int, path: Path) -> None:
    """`path`: the file that this one replaces. Who could write that, and may write the directory, can write it."""
    new, directory = os.fstat(fd), os.stat(path.parent)
    writers = new.st_mode
    with suppress(FileNotFoundError):
        writers = os.lstat(path).st_mode
    owner = directory.st_uid if os.geteuid() == 0 else new.st_uid
    if (new.st_uid, new.st_gid) != (owner, directory.st_gid):
        with suppress(OSError):  # root without that capability, or on a server that squashes root; no member
            os.fchown(fd, owner, directory.st_gid)
    readers = new.st_mode & 0o444 | (directory.st_mode & 0o111) << 2
    mode = 0o200 | readers | writers & directory.st_mode & 0o022
    if mode != new.st_mode & 0o666:
        with suppress(OSError):  # on FAT, and where another user has the file by now
            os.fchmod(fd, mode)


def _shows(new: os.stat_result, path: Path) -> bool:
    """Would the new file in the place of `path` be told from it?"""
    try:
        old = os.lstat(path)
    except OSError:
        return False
    same = (old.st_mode, old.st_uid, old.st_gid) == (new.st_mode, new.st_uid, new.st_gid)
    return old.st_nlink > 1 or not same


def _is_special(path: Path) -> bool:
    with suppress(FileNotFoundError):
        return not stat.S_ISREG(os.stat(path).st_mode)
    return False
