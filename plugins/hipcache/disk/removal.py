"""Removes files and whole directories from an open directory, and nothing that is not in it.

`confined` opens the directory. No link is followed, and no depth is too deep."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress

_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# A directory of a lower layer of an overlay cannot be moved; each level takes a descriptor.
_LEVELS = 64


def remove_at(parent: int, name: str, each: Callable[[int], object] | None = None, levels: int = _LEVELS) -> None:
    """Remove a file, or a directory with all that is in it, as far as that can be done. `each` is told the size of each
    file. Directories inside are moved up before they are emptied; `levels` of them are emptied where they are if they
    cannot be moved. Raises nothing."""
    waiting = [name]
    while waiting:
        one = waiting.pop()
        try:
            directory = os.open(one, _LIST, dir_fd=parent)
        except OSError:
            _unlink(parent, one, each)
            continue
        try:
            with os.scandir(directory) as entries:
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
        except OSError:
            pass
        finally:
            os.close(directory)
        with suppress(OSError):
            os.rmdir(one, dir_fd=parent)


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
