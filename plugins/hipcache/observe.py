"""Watches what a process asks of the file system: each path that it looks at, reads or looks for in vain.

The driver's plan depends on what it finds: GCC's and ROCm's directories, configuration files, headers' roots. Which,
is the driver's own affair and changes between releases, so nothing is guessed: the driver is run once under ptrace(2),
with a seccomp(2) filter that stops it at calls that take a path and lets all others run at full speed. What comes out
is a list of observations that can be checked again with some two hundred `stat` calls (0.5 ms) instead of running the
driver (15 to 30 ms; the watching costs less than can be measured).

Works on Linux 5.3 or newer, on x86-64 and AArch64. Everywhere else, in a sandbox that forbids ptrace, and for a driver
that starts further processes (`--offload-arch=native` asks amdgpu-arch), `run` gives None, and the driver is asked
each time.

Rejected: a library in LD_PRELOAD (a static compiler goes around it, and so does each function that we forget); strace
(not installed everywhere).
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hipcache.keys import digest_bytes

# How a path was looked at, and what that tells of it (`sign`).
STAT, LINK, READ, LIST = "stat", "link", "read", "list"


@dataclass(frozen=True)
class Ended:
    """What the process left behind; `status` is its exit status."""

    status: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True)
class Observation:
    """`how` a path was looked at, and its signature then: what of it the process could see."""

    how: str
    path: str
    sign: str


def sign(how: str, path: str) -> str:
    """What a process that looks at `path` in this way can see; empty where it is absent."""
    try:
        if how == LIST:
            return digest_bytes("\0".join(sorted(os.listdir(path))).encode("utf-8", "surrogateescape"))
        if how == LINK:
            found = os.lstat(path)
            return os.readlink(path) if stat.S_ISLNK(found.st_mode) else oct(found.st_mode)
        found = os.stat(path)
    except OSError:
        return ""
    if how == READ and not stat.S_ISDIR(found.st_mode):
        return f"{found.st_dev} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
    return oct(found.st_mode)


def young(observations: Sequence[Observation], now: float, racy: float) -> bool:
    """Did a file that was read change less than `racy` seconds ago? Its signature may not tell the next change."""
    limit = (now - racy) * 1e9
    return any(
        one.how == READ and one.sign.count(" ") == 4 and int(one.sign.split()[4]) >= limit for one in observations
    )


# ---- how calls are numbered and where their paths are: name -> (argument with the path, argument with the flags)

_OPEN_FLAGS_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_AT_FDCWD = 2**64 - 100


@dataclass(frozen=True)
class _Call:
    how: str
    path: int
    directory: int = -1  # argument with the directory's descriptor
    flags: int = -1
    no_follow: int = 0  # the flag that makes it look at a link itself


_NOFOLLOW = 0x100
_X86_64 = {
    2: _Call(READ, 0, flags=1),  # open
    4: _Call(STAT, 0),  # stat
    6: _Call(LINK, 0),  # lstat
    21: _Call(STAT, 0),  # access
    59: _Call(READ, 0),  # execve
    80: None,  # chdir
    81: None,  # fchdir
    89: _Call(LINK, 0),  # readlink
    137: _Call(STAT, 0),  # statfs
    257: _Call(READ, 1, 0, flags=2),  # openat
    262: _Call(STAT, 1, 0, flags=3, no_follow=_NOFOLLOW),  # newfstatat
    267: _Call(LINK, 1, 0),  # readlinkat
    269: _Call(STAT, 1, 0),  # faccessat
    322: None,  # execveat
    332: _Call(STAT, 1, 0, flags=2, no_follow=_NOFOLLOW),  # statx
    437: None,  # openat2
    439: _Call(STAT, 1, 0, flags=3, no_follow=_NOFOLLOW),  # faccessat2
    41: None,  # socket
}
_AARCH64 = {
    43: _Call(STAT, 0),  # statfs
    48: _Call(STAT, 1, 0),  # faccessat
    49: None,  # chdir
    50: None,  # fchdir
    56: _Call(READ, 1, 0, flags=2),  # openat
    78: _Call(LINK, 1, 0),  # readlinkat
    79: _Call(STAT, 1, 0, flags=3, no_follow=_NOFOLLOW),  # newfstatat
    198: None,  # socket
    221: _Call(READ, 0),  # execve
    281: None,  # execveat
    291: _Call(STAT, 1, 0, flags=2, no_follow=_NOFOLLOW),  # statx
    437: None,  # openat2
    439: _Call(STAT, 1, 0, flags=3, no_follow=_NOFOLLOW),  # faccessat2
}
_MACHINES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}

# linux/ptrace.h, linux/prctl.h, linux/seccomp.h, linux/filter.h
_TRACEME, _CONT, _KILL, _SYSCALL, _SETOPTIONS, _GET_SYSCALL_INFO = 0, 7, 8, 24, 0x4200, 0x420E
_OPTIONS = 0x100001 | 0x2 | 0x4 | 0x8 | 0x10 | 0x80  # EXITKILL, TRACESYSGOOD; FORK, VFORK, CLONE, EXEC; SECCOMP
_EVENT_EXEC, _EVENT_SECCOMP = 4, 7
_ENTRY, _EXIT, _SECCOMP_STOP = 1, 2, 3
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 1, 38, 22, 2
_RET_TRACE, _RET_ALLOW = 0x7FF00000, 0x7FFF0000
_WALL = 0x40000000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class _Unobservable(Exception):
    """The process did something that a list of paths cannot stand for."""


def run(
    program: str, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], ignore: str
) -> tuple[Ended, tuple[Observation, ...]] | None:
    """Run `program` (an absolute path) with `argv` and observe it; None where that cannot be done.

    Nothing below directory `ignore` counts (the process's own scratch files)."""
    machine = _MACHINES.get(platform.machine())
    if machine is None or not hasattr(os, "memfd_create"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    libc.ptrace.restype = ctypes.c_long
    code = ctypes.create_string_buffer(_filter(*machine))
    rules = _Program((len(code) - 1) // 8, ctypes.addressof(code))
    out, err = os.memfd_create("out"), os.memfd_create("err")
    words, environment = list(argv), dict(env)
    try:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _child(libc, rules, (program, words, environment), cwd, (out, err), parent)
        watched = _Watched(libc, pid, machine[1], cwd, ignore)
        try:
            status = watched.follow()
        except (_Unobservable, OSError):
            watched.kill()
            return None
        except BaseException:
            watched.kill()
            raise
        seen = watched.observations()
        return (Ended(status, _content(out), _content(err)), seen) if seen else None
    finally:
        os.close(out)
        os.close(err)


def _child(
    libc: ctypes.CDLL,
    rules: _Program,
    command: tuple[str, list[str], dict[str, str]],
    cwd: str,
    outputs: tuple[int, int],
    parent: int,
) -> None:
    """Between fork and exec: only what is safe in a process that had other threads."""
    try:
        # A stopped child that outlived its parent would keep the parent's locks for ever.
        if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0 or os.getppid() != parent:
            os._exit(127)
        os.chdir(cwd)
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in enumerate((null, *outputs)):
            os.dup2(source, target)
        os.closerange(len(outputs) + 1, 1 << 16)
        if libc.ptrace(_TRACEME, 0, None, None) != 0:
            os._exit(127)
        os.kill(os.getpid(), signal.SIGSTOP)
        for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            os._exit(127)
        if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(rules), 0, 0) != 0:
            os._exit(127)
        os.execve(*command)
    finally:
        os._exit(127)


def _filter(architecture: int, calls: Mapping[int, _Call | None]) -> bytes:
    """Classic BPF: calls with a path, and those of another architecture, stop; all others run."""
    rows = [(0x20, 0, 0, 4), (0x15, 1, 0, architecture), (0x06, 0, 0, _RET_TRACE), (0x20, 0, 0, 0)]
    count = len(calls)
    for place, number in enumerate(sorted(calls)):
        rows.append((0x15, count - place, 0, number))
    rows += [(0x06, 0, 0, _RET_ALLOW), (0x06, 0, 0, _RET_TRACE)]
    return b"".join(struct.pack("<HBBI", *row) for row in rows)


def _content(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)


class _Watched:
    """The traced process: stops at each call with a path, and again when the call has an answer."""

    def __init__(self, libc: ctypes.CDLL, pid: int, calls: Mapping[int, _Call | None], cwd: str, ignore: str) -> None:
        self._libc, self._pid, self._calls = libc, pid, calls
        self._cwd, self._ignore = cwd, ignore
        self._seen: dict[tuple[str, str], bool] = {}
        self._ended = False

    def observations(self) -> tuple[Observation, ...]:
        found = []
        for (how, path), there in self._seen.items():
            seen = sign(how, path)
            if bool(seen) != there:
                return ()  # it changed under our eyes
            found.append(Observation(how, path, seen))
        return tuple(found)

    def kill(self) -> None:
        if not self._ended:
            with suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
            with suppress(OSError):
                while not self._ended:
                    self._wait()

    def follow(self) -> int:
        """The exit status. Raises _Unobservable, OSError."""
        if not os.WIFSTOPPED(self._wait()):
            raise _Unobservable
        self._ptrace(_SETOPTIONS, _OPTIONS)
        self._ptrace(_CONT)
        while True:
            status = self._wait()
            if self._ended:
                if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 127:
                    return os.WEXITSTATUS(status)
                raise _Unobservable
            number, event = os.WSTOPSIG(status), status >> 16
            if event == _EVENT_SECCOMP:
                self._call()
            elif event == _EVENT_EXEC:
                self._ptrace(_CONT)
            elif event:
                raise _Unobservable  # it starts another process
            elif number == signal.SIGTRAP:
                self._ptrace(_CONT)
            else:
                self._ptrace(_CONT, number)

    def _call(self) -> None:
        kind, call_number, arguments, _ = self._info()
        call = self._calls.get(call_number)
        if kind != _SECCOMP_STOP or call is None:
            raise _Unobservable
        raw = self._string(arguments[call.path])
        flags = arguments[call.flags] if call.flags >= 0 else 0
        directory = arguments[call.directory] if call.directory >= 0 else _AT_FDCWD
        self._ptrace(_SYSCALL)
        status = self._wait()
        if self._ended:
            return
        if status >> 16 == _EVENT_EXEC:  # the call was an exec that works
            self._note(READ, raw, _AT_FDCWD, True)
            self._ptrace(_CONT)
            return
        kind, _, _, answer = self._info()
        if kind != _EXIT:
            raise _Unobservable
        there = answer >= 0 or (call.how == LINK and answer == -22)  # EINVAL: it is no link
        if raw and not (call.how == READ and flags & _OPEN_FLAGS_WRITE):
            how = LINK if flags & call.no_follow else call.how
            if how == READ and flags & os.O_DIRECTORY:
                how = LIST
            self._note(how, raw, directory, there)
        self._ptrace(_CONT)

    def _note(self, how: str, raw: str, directory: int, there: bool) -> None:
        path = raw
        if not raw.startswith("/"):
            base = self._cwd
            if directory & 0xFFFFFFFF != _AT_FDCWD & 0xFFFFFFFF:
                base = os.readlink(f"/proc/{self._pid}/fd/{directory}")
            path = os.path.join(base, raw)
        if path.startswith(("/proc/self/", self._ignore + "/")) or path == self._ignore:
            return  # itself, and what it has open: seen when it was opened
        if path.startswith(("/proc/", "/sys/", "/dev/")) and path != os.devnull:
            raise _Unobservable
        if self._seen.setdefault((how, path), there) != there:
            raise _Unobservable

    def _info(self) -> tuple[int, int, tuple[int, ...], int]:
        """(kind of stop, number of the call, its arguments, its answer): struct ptrace_syscall_info."""
        buffer = ctypes.create_string_buffer(96)
        self._ptrace(_GET_SYSCALL_INFO, ctypes.addressof(buffer), len(buffer))
        kind = buffer.raw[0]
        if kind == _EXIT:
            return kind, -1, (), struct.unpack_from("<q", buffer.raw, 24)[0]
        number, *arguments = struct.unpack_from("<7Q", buffer.raw, 24)
        return kind, number, tuple(arguments), 0

    def _string(self, address: int) -> str:
        return os.fsdecode(b"".join(self._bytes(address)))

    def _bytes(self, address: int) -> Iterator[bytes]:
        with open(f"/proc/{self._pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            for _ in range(64):
                piece = memory.read(256)
                head, end, _ = piece.partition(b"\0")
                yield head
                if end or not piece:
                    return
        raise _Unobservable

    def _ptrace(self, request: int, data: int = 0, address: int = 0) -> None:
        if self._libc.ptrace(request, self._pid, address or None, data or None) < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    def _wait(self) -> int:
        _, status = os.waitpid(self._pid, _WALL)
        self._ended = os.WIFEXITED(status) or os.WIFSIGNALED(status)
        return status
