"""Opens what lies in a store. No other module opens, lists, renames or removes a path below STORE/v2.

A co-writer of the store may have put anything in the place of anything: links, FIFOs, devices, huge files, files with a
second name. So each name is looked up from a descriptor of STORE, one directory after the other, and no link is
followed below it; only regular files of limited size are opened, and nothing waits. `native/direct/store.c` does the
same in C. SECURITY.md has the rules.

A store is as open as its directory v2, which is made private (0700) unless HIPCACHE_UMASK or the setgid bit of STORE
says otherwise. What is made later has the permissions of its directory, whatever the umask of the process. Who may only
read gets no lock file (0600), as whoever can open one can hold it. What root makes in the store of a user belongs to
the user.

A `name` is relative to STORE/v2: "actions/abcdef...". All methods raise OSError, with the absolute path as its
`filename`; `Strange` where something else than a file of the expected kind is there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from hipcache.base import shared
from hipcache.base.files import Descriptor, write_all

# A directory of a lower layer of an overlay cannot be moved; each level takes a descriptor.
_LEVELS = 64


def remove_at(parent: int, name: str, each: Callable[[int], object] | None = None, levels: int = _LEVELS) -> None:
    """Remove a file, or a directory with all that is in it, as far as that can be done. `each` is told the size of each
    file. Directories inside are moved up before they are emptied; `levels` of them are emptied where they are if they
    cannot be moved. Raises nothing."""
    waiting = [name]
    while waiting:
        child = waiting.pop()
        try:
            directory = Descriptor(os.open(child, _LIST, dir_fd=parent))
        except OSError:
            _unlink(parent, child, each)
            continue
        with suppress(OSError), directory, os.scandir(directory) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    _unlink(directory, entry.name, each)
                    continue
                above = f"gone-{os.urandom(12).hex()}"
                try:
                    os.rename(entry.name, above, src_dir_fd=directory, dst_dir_fd=parent)
                    waiting.append(above)
                except OSError as error:
                    if error.errno == errno.EXDEV and levels:
                        remove_at(directory, entry.name, each, levels - 1)
        with suppress(OSError):
            os.rmdir(child, dir_fd=parent)


def discard_at(parent: int, last: str) -> None:
    """Remove a file, or a directory in its place. Raises OSError."""
    try:
        os.unlink(last, dir_fd=parent)
    except IsADirectoryError:
        remove_at(parent, last)
        with suppress(FileNotFoundError):
            os.rmdir(last, dir_fd=parent)


def discard_unchanged_at(parent: int, last: str, time: int) -> bool:
    """The same if its modification time (in nanoseconds) is `time`. False if it is still there."""
    try:
        if os.stat(last, dir_fd=parent, follow_symlinks=False).st_mtime_ns != time:
            return False
        discard_at(parent, last)
    except OSError:
        return False
    return True


def _unlink(directory: int, name: str, each: Callable[[int], object] | None) -> None:
    try:
        size = os.stat(name, dir_fd=directory, follow_symlinks=False).st_size if each else 0
        os.unlink(name, dir_fd=directory)
    except OSError:
        return
    if each:
        each(size)


T = TypeVar("T")

VERSION = "v2"

# Bytes of the largest file of each kind.
MOST_BLOB, MOST_STATISTICS = shared.MOST_BLOB, shared.MOST_STATISTICS
MOST_RECORD, MOST_NOTE = 256 << 20, 16 << 20

_SAFE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_LIST = os.O_RDONLY | os.O_DIRECTORY | _SAFE
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PRIVATE = 0o700


class Strange(OSError):
    """It is there, and is no regular file, or one that is too large, or one with a second name."""


class Confined:
    """The files below `root`/v2. `umask`: that of HIPCACHE_UMASK, None if it is not set."""

    def __init__(self, root: str | os.PathLike[str], umask: int | None = None) -> None:
        self.root = os.fspath(root)
        self.base = f"{self.root}/{VERSION}"
        self.umask = umask

    def path(self, name: str) -> str:
        """The absolute path, for messages and for private directories."""
        return f"{self.base}/{name}"

    # Files

    def open(self, name: str, most: int, flags: int = os.O_RDONLY) -> Descriptor:
        """A descriptor of a regular file of at most `most` bytes. What is opened to be written has no second name."""
        return self._at(name, lambda parent, last: _open(parent, last, flags, most))

    def create(self, name: str, *, lock: bool = False, own: bool = False) -> Descriptor:
        """A new file, to be read and written. `lock`: a lock file. `own`: to be written by this user alone."""
        return self._at(name, lambda parent, last: self._create(parent, last, lock=lock, own=own))

    def keep(self, name: str, most: int, flags: int = os.O_RDWR, *, lock: bool = False) -> Descriptor:
        """A file that is written in place: made if it is missing, and made anew if something strange is there."""

        def keep(parent: int, last: str) -> Descriptor:
            for _ in range(3):
                try:
                    fd = _open(parent, last, flags, most)
                except FileNotFoundError:
                    pass
                except OSError as error:
                    if not is_strange(error):
                        raise
                    remove_at(parent, last)
                else:
                    if lock:
                        close_to_readers(parent, fd)
                    return fd
                with suppress(FileExistsError):  # another process was faster
                    os.close(self._create(parent, last, lock=lock))
            return _open(parent, last, flags, most)

        return self._at(name, keep)

    def read(self, name: str, most: int) -> bytes:
        """The whole content."""
        with self.open(name, most) as fd:
            parts = []
            while most >= 0 and (part := os.read(fd, min(most + 1, 1 << 20))):
                parts.append(part)
                most -= len(part)
        if most < 0:
            raise Strange(errno.EFBIG, os.strerror(errno.EFBIG), self.path(name))
        return b"".join(parts)

    def write(self, name: str, content: bytes) -> None:
        """A new file of that content."""
        with self.create(name) as fd:
            write_all(fd, content)

    def replace(self, name: str, content: bytes, temporary: str) -> None:
        """A file of that content in the place of whatever is there: whole or not at all, by a file of the name
        `temporary`."""
        try:
            self.write(temporary, content)
            self.rename_over(temporary, name)
        except BaseException:
            with suppress(OSError):
                self.unlink(temporary)
            raise

    def status(self, name: str) -> os.stat_result:
        """The status of whatever is there; a link is not followed."""
        return self._at(name, lambda parent, last: os.stat(last, dir_fd=parent, follow_symlinks=False))

    def touch(self, name: str, nanoseconds: int | None = None) -> None:
        """Set its times; None: to now."""
        times = None if nanoseconds is None else (nanoseconds, nanoseconds)

        def touch(parent: int, last: str) -> None:
            if times is None:
                os.utime(last, dir_fd=parent, follow_symlinks=False)
            else:
                os.utime(last, ns=times, dir_fd=parent, follow_symlinks=False)

        self._at(name, touch)

    def rename(self, old: str, new: str) -> None:
        def from_there(source: int, last: str) -> None:
            self._at(new, lambda target, name: os.rename(last, name, src_dir_fd=source, dst_dir_fd=target))

        self._at(old, from_there)

    def rename_over(self, old: str, new: str) -> None:
        """The same where a directory may be in its place, with whatever is in it."""
        try:
            self.rename(old, new)
        except IsADirectoryError:
            self.discard(new)
            self.rename(old, new)

    def unlink(self, name: str) -> None:
        self._at(name, lambda parent, last: os.unlink(last, dir_fd=parent))

    # Directories

    def rmdir(self, name: str) -> None:
        self._at(name, lambda parent, last: os.rmdir(last, dir_fd=parent))

    def make(self, names: tuple[str, ...]) -> None:
        """Create STORE, v2 and the directories `names` if they are missing. A link in the place of one is removed, but
        not one that STORE/v2 itself is."""
        if not os.path.isdir(self.root):
            os.makedirs(os.path.dirname(self.root) or "/", exist_ok=True)
            try:
                os.mkdir(self.root, PRIVATE)
                os.chmod(self.root, directory_mode(0, self.umask))
            except FileExistsError:
                if not os.path.isdir(self.root):
                    raise
        with Descriptor(os.open(self.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as root:
            try:
                found = os.fstat(root)
                shared = found.st_mode if found.st_mode & stat.S_ISGID else 0
                self._make_directory(root, VERSION, directory_mode(shared, self.umask))
            except OSError as error:
                error.filename = self.base
                raise
        for name in names:
            self.make_directory(name)

    def make_directory(self, name: str) -> None:
        """Make it if it is missing or a link is in its place, with the permissions of the directory that it is in."""

        def make(parent: int, last: str) -> None:
            try:
                status = os.stat(last, dir_fd=parent, follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
                    os.unlink(last, dir_fd=parent)
            except FileNotFoundError:
                pass
            self._make_directory(parent, last, directory_mode(os.fstat(parent).st_mode, self.umask))

        self._at(name, make)

    def make_private_directory(self, name: str) -> None:
        def make(parent: int, last: str) -> None:
            os.mkdir(last, PRIVATE, dir_fd=parent)

        self._at(name, make)

    def listing(self, name: str) -> list[tuple[str, os.stat_result]]:
        """The entries of a directory; none if there is no directory, or a link in its place."""
        try:
            directory = self._at(name, lambda parent, last: Descriptor(os.open(last, _LIST, dir_fd=parent)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        with directory, os.scandir(directory) as entries:
            return [(entry.name, status) for entry in entries if (status := _status(entry)) is not None]

    def remove(self, name: str, each: Callable[[int], object] | None = None) -> None:
        """Remove a file, or a directory with all that is in it, as far as that can be done. `each` is told the size
        of each file. Raises nothing."""
        with suppress(OSError):
            self._at(name, lambda parent, last: remove_at(parent, last, each))

    def discard(self, name: str) -> None:
        """Remove a file, or a directory in its place."""
        self._at(name, discard_at)

    def discard_unchanged(self, directory: str, times: Mapping[str, int]) -> list[str]:
        """Discard those names in a directory whose modification time (in nanoseconds) is the given one. Returns which
        are gone."""

        def discard(parent: int, last: str) -> list[str]:
            with Descriptor(os.open(last, _STEP, dir_fd=parent)) as inside:
                return [name for name, time in times.items() if discard_unchanged_at(inside, name, time)]

        return self._at(directory, discard)

    def open_base(self) -> Descriptor:
        """Of STORE/v2."""
        return Descriptor(self._directory([]))

    def _at(self, name: str, action: Callable[[int, str], T]) -> T:
        """Do `action` in the directory of `name`, with the rest of it."""
        *parts, last = name.split("/")
        if not all(part.strip(".") for part in (*parts, last)):
            raise ValueError(f"not a name in a store: '{name}'")
        try:
            with Descriptor(self._directory(parts)) as directory:
                return action(directory, last)
        except OSError as error:
            error.filename = self.path(name)
            error.filename2 = None
            raise

    def _directory(self, parts: list[str]) -> int:
        directory = os.open(self.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in (VERSION, *parts):
            directory = step(directory, part)
        return directory

    def _make_directory(self, parent: int, last: str, mode: int) -> None:
        try:
            os.mkdir(last, mode & 0o777, dir_fd=parent)
        except FileExistsError:
            os.close(os.open(last, _STEP, dir_fd=parent))
            return
        with Descriptor(os.open(last, _LIST, dir_fd=parent)) as made:
            settle(made, mode, os.fstat(parent))

    def _create(self, parent: int, last: str, *, lock: bool, own: bool = False) -> Descriptor:
        fd = Descriptor(os.open(last, os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFE, 0o600, dir_fd=parent))
        above = os.fstat(parent)
        mode = directory_mode(above.st_mode, self.umask) & 0o666
        settle(fd, for_writers(mode) if lock else mode & ~0o022 if own else mode, above)
        return fd


def is_strange(error: OSError) -> bool:
    """Is something else there than a file of the expected kind?"""
    return isinstance(error, Strange) or error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO)


def _open(parent: int, last: str, flags: int, most: int) -> Descriptor:
    fd = Descriptor(os.open(last, flags | _SAFE, dir_fd=parent))
    found = os.fstat(fd)
    second = flags & os.O_ACCMODE != os.O_RDONLY and found.st_nlink > 1
    if stat.S_ISREG(found.st_mode) and found.st_size <= most and not second:
        return fd
    os.close(fd)
    number = errno.EFBIG if found.st_size > most else errno.EINVAL
    raise Strange(number, "no regular file of the size that is expected here")


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:
        return None  # it is gone meanwhile


class Steady(Confined):
    """The same for many names in a row: the directories just below STORE/v2 are looked up once.

    A put of one entry is some 45 calls of the kernel, and most of them look up the directories of a name anew. Who
    holds one open still writes into it when another process has moved it away: so this is for as long as nobody may, or
    for what is looked for by its name afterwards.
    """

    def __init__(self, confined: Confined) -> None:
        super().__init__(confined.root, confined.umask)
        self._open: dict[str, int] = {}

    def __enter__(self) -> Steady:
        return self

    def __exit__(self, *raised: object) -> None:
        for directory in self._open.values():
            os.close(directory)

    def _directory(self, parts: list[str]) -> int:
        if not parts:
            return super()._directory(parts)
        if parts[0] not in self._open:
            self._open[parts[0]] = super()._directory(parts[:1])
        directory = os.dup(self._open[parts[0]])
        for part in parts[1:]:
            directory = step(directory, part)
        return directory


def step(directory: int, part: str) -> int:
    """One step down a path: a descriptor of the directory `part` in that one, which is closed. Raises OSError."""
    try:
        return os.open(part, _STEP, dir_fd=directory)
    finally:
        os.close(directory)


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
