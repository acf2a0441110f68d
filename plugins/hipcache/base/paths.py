"""Paths that the kernel answers itself (processes, devices, the machine), streams, what this user can reach, and this
user's private directories."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from hipcache.base.patterns import pattern

#: What a process reads there decides nothing about its output. The last one is read by allocators (mimalloc as Python
#: starts, jemalloc, glibc's for threads): may memory be reserved that is not there?
HARMLESS = (os.devnull, "/dev/urandom", "/proc/sys/vm/overcommit_memory")

_KERNEL = ("/proc/", "/sys/", "/dev/")
# A file system in memory (POSIX shared memory), in which people also build.
_MEMORY = "/dev/shm/"
# What a process has below here is another one's elsewhere: its directory and its root, and what is open in it.
_SELF, _CWD, _ROOT = "/proc/self/", "/proc/self/cwd/", "/proc/self/root/"


def is_of_kernel(path: str) -> bool:
    """Is `path` (absolute) such a path?"""
    return path.startswith(_KERNEL) and not (path.startswith(_MEMORY) and os.path.normpath(path).startswith(_MEMORY))


def is_own(path: str) -> bool:
    """Is it what a process has for itself alone (an open file, its program)? As `is_own` of
    native/observer/observer.c."""
    return path.startswith(_SELF) and not any(part in path for part in ("/cwd", "/root", "/.."))


def absolute(path: str, cwd: str) -> str:
    """`path`, as a process that works in `cwd` names it, for all others: without /proc/self/cwd (Bazel's PWD) and
    /proc/self/root. As `for_all` of native/observer/observer.c."""
    if path.startswith("/") and not path.startswith(_SELF):
        return path
    if path.startswith(_SELF):
        while (path + "/").startswith(_ROOT):
            path = path[len(_ROOT) - 1 :] or "/"
        if (path + "/").startswith(_CWD):
            path = path[len(_CWD) :].lstrip("/") or "."
    return os.path.join(cwd, path)


#: As of stat(2). With any other one a compiler may say that it cannot open the file, where it would go on without it.
MISSING = (errno.ENOENT, errno.ENOTDIR)
_MOST_LINKS = 40


def components(path: str) -> Iterator[str]:
    """The paths at which the kernel looks, one after the other, to find `path` (absolute): each directory on the way,
    and where a link leads (path_resolution(7)). Raises OSError for what it cannot follow."""
    at, rest, links = "/", path.split("/")[::-1], 0
    while rest:
        name = rest.pop()
        if name in ("", "."):
            continue
        step = os.path.dirname(at) if name == ".." else os.path.join(at, name)
        if name != ".." and os.path.islink(step):
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            text = os.readlink(step)
            rest += text.split("/")[::-1]
            at = "/" if text.startswith("/") else at
        else:
            at = step
        yield step


def why_not_missing(path: str) -> str:
    """Why lstat(2) does not find `path` missing, in words; empty if it does."""
    try:
        os.lstat(path)
    except OSError as error:
        return "" if error.errno in MISSING else f"cannot be looked for ({error.strerror})"
    except ValueError:  # no path can have that name
        return ""
    return "now exists"


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


def runtime_directory(environ: Mapping[str, str]) -> str:
    """A private directory for the locks and sockets of this user, made if it is not there. "" if none can be had."""
    return next(_runtime_directories(environ, ("/tmp",)), "")


def places_for_marks(environ: Mapping[str, str]) -> Iterator[str]:
    """The same, and others for a file that may lie anywhere: the disk of the first may be full."""
    yield from _runtime_directories(environ, (environ.get("TMPDIR", ""), "/tmp", "/dev/shm"))


def places_for_files(environ: Mapping[str, str]) -> Iterator[str]:
    """Private directories for what is large, as XDG_RUNTIME_DIR is memory."""
    yield from _private_directories([], (environ.get("TMPDIR", ""), "/tmp"))


def _runtime_directories(environ: Mapping[str, str], shared: Sequence[str]) -> Iterator[str]:
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    own = [os.path.join(runtime, "hipcache")] if runtime.startswith("/") and _is_of(os.geteuid(), runtime) else []
    yield from _private_directories(own, shared)


def _private_directories(own: list[str], shared: Sequence[str]) -> Iterator[str]:
    """`shared`: directories in which everybody may write, and ours has a name that anybody could have taken."""
    mine = os.geteuid()
    for path in own + [f"{directory}/hipcache-{mine}" for directory in shared if directory]:
        with suppress(OSError):
            with suppress(FileExistsError):
                os.mkdir(path, mode=0o700)  # a TMPDIR that is not there stays so
            status = os.stat(path, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and status.st_uid == mine and not status.st_mode & 0o022:
                yield path


def _is_of(user: int, directory: str) -> bool:
    """After sudo, it may be the directory of the user who started it."""
    try:
        return os.stat(directory).st_uid == user
    except OSError:
        return False
