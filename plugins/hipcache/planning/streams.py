"""Files that are no regular files: those that can be read only once, or are another one for another process."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from hipcache.disk.special import absolute, is_of_kernel
from hipcache.patterns import pattern

# A file that is open in the process that looks for it.
_OPEN = pattern(r"/{1,2}(?:dev/(?:fd|stdin)|proc/(?:thread-)?(?:self|\d+)/(?:task/\d+/)?fd)(?:/|$)")


def is_stream(path: str) -> bool:
    """Can `path` (absolute) be read only once, or is it another file for another process (/dev/stdin)?"""
    try:
        regular = stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False  # the compiler says why
    return not regular or is_of_kernel(os.path.normpath(path))


def names_stream(word: str, cwd: str) -> bool:
    """Does a word of a command name a file that our processes must not read: one that is open in the user's process
    (-include /dev/fd/3, --config=/dev/stdin), which is none of theirs, or a named pipe, which is empty for the second
    reader?"""
    paths = [absolute(part, cwd) for part in _parts(word)]
    return any(map(_OPEN.match, map(os.path.normpath, paths))) or any(map(_is_pipe, paths))


def _parts(word: str) -> Iterator[str]:
    """All that may be a path in it: behind an option's letter (-I), its name (-include../x), a `=` or a comma."""
    for part in re.split("[=,:]", word):
        for at in {0, 2, part.find("/"), part.find(".")}:
            if 0 <= at < len(part):
                yield part[at:]


def _is_pipe(path: str) -> bool:
    """One of the file system's. (/dev/stdout may be a pipe, too, and is for outputs.)"""
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode) and not is_of_kernel(os.path.normpath(path))
    except (OSError, ValueError):
        return False


def is_null(path: str) -> bool:
    """Is it the null device, which is empty for whoever reads it?"""
    try:
        found = os.stat(path)
    except OSError:
        return False
    return path == os.devnull and stat.S_ISCHR(found.st_mode) and found.st_rdev == os.makedev(1, 3)
