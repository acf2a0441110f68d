"""Runs a program under ptrace(2), and sees each path that it, or a process that it starts, hands to the kernel.

A seccomp(2) filter stops the processes at calls that take a path, and lets all others run at full speed.
Works on Linux 5.3 or newer, on x86-64 and AArch64.

A tree of processes is watched until one of them becomes the program that is looked for: it is held before its first
instruction, and all are ended. None of them may have changed anything by then, so calls that write end the watch.

The processes are in a process group of their own: waiting for that group takes no other children of this process or
thread. New ones are in it from birth, watched from birth (PTRACE_O_TRACEFORK and the like), and never leave it (a call
that would do so ends the watch).

Rejected: seccomp's notifications, by which `native/observer/observer.c` holds passes (if hipcache is killed, nothing
ends a tree that loops; PTRACE_O_EXITKILL does); a library in LD_PRELOAD (a static compiler goes around it, and so does
each function that we forget); strace (not installed everywhere).
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from hipcache.base.paths import HARMLESS, absolute, components, is_of_kernel, is_own
from hipcache.base.values import dataclass, field
from hipcache.processes import GPUS, LINK, LIST, READ, STAT

# The system calls that take a path: how the kernel numbers them, where their paths are, and a filter that stops there.
# A call whose entry is None is one that a list of paths cannot stand for.

OPEN_FLAGS_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT
AT_FDCWD = 2**64 - 100


@dataclass(frozen=True)
class SystemCall:
    how: str
    path: int  # the argument with the path
    directory: int = -1  # with the directory's descriptor
    flags: int = -1
    no_follow: int = 0  # the flag that makes it look at a link itself
    how_at: int = -1  # with the address of `struct open_how` (linux/openat2.h), whose first word is the flags


EXEC = SystemCall(READ, 0)
CHDIR = SystemCall("chdir", 0)
SOCKET, CONNECT = SystemCall("socket", -1), SystemCall("connect", 1)
_NOFOLLOW = 0x100
_X86_64 = {
    2: SystemCall(READ, 0, flags=1),  # open
    4: SystemCall(STAT, 0),  # stat
    6: SystemCall(LINK, 0),  # lstat
    21: SystemCall(STAT, 0),  # access
    41: SOCKET,
    42: CONNECT,
    49: None,  # bind
    59: EXEC,  # execve
    80: CHDIR,
    81: None,  # fchdir
    89: SystemCall(LINK, 0),  # readlink
    137: SystemCall(STAT, 0),  # statfs
    257: SystemCall(READ, 1, 0, flags=2),  # openat
    262: SystemCall(STAT, 1, 0, flags=3, no_follow=_NOFOLLOW),  # newfstatat
    267: SystemCall(LINK, 1, 0),  # readlinkat
    269: SystemCall(STAT, 1, 0),  # faccessat
    322: None,  # execveat
    332: SystemCall(STAT, 1, 0, flags=2, no_follow=_NOFOLLOW),  # statx
    437: SystemCall(READ, 1, 0, how_at=2),  # openat2
    439: SystemCall(STAT, 1, 0, flags=3, no_follow=_NOFOLLOW),  # faccessat2
}
_AARCH64 = {
    43: SystemCall(STAT, 0),  # statfs
    48: SystemCall(STAT, 1, 0),  # faccessat
    49: CHDIR,
    50: None,  # fchdir
    56: SystemCall(READ, 1, 0, flags=2),  # openat
    78: SystemCall(LINK, 1, 0),  # readlinkat
    79: SystemCall(STAT, 1, 0, flags=3, no_follow=_NOFOLLOW),  # newfstatat
    198: SOCKET,
    200: None,  # bind
    203: CONNECT,
    221: EXEC,  # execve
    281: None,  # execveat
    291: SystemCall(STAT, 1, 0, flags=2, no_follow=_NOFOLLOW),  # statx
    437: SystemCall(READ, 1, 0, how_at=2),  # openat2
    439: SystemCall(STAT, 1, 0, flags=3, no_follow=_NOFOLLOW),  # faccessat2
}
# Calls that no process of a tree may make: truncate, rename, mkdir, rmdir, creat, link, unlink, symlink, and their
# newer forms; setpgid and setsid; umask, and setuid, setgid and the like, which change whose the outputs are.
_X86_64_CHANGES = dict.fromkeys(
    [76, *range(82, 89), 95, 105, 106, 109, *range(112, 115), 116, 117, 119, 122, 123, *(258, 263, 264, 265, 266, 316)]
)
_AARCH64_CHANGES = dict.fromkeys([*range(34, 39), 45, *range(143, 148), 149, 151, 152, 154, 157, 159, 166, 276])
# Machine -> its number for auditing, its calls with a path, its calls that change something.
MACHINES = {
    "x86_64": (0xC000003E, _X86_64, _X86_64_CHANGES),
    "aarch64": (0xC00000B7, _AARCH64, _AARCH64_CHANGES),
}

# linux/seccomp.h, linux/filter.h
_RET_TRACE, _RET_ALLOW = 0x7FF00000, 0x7FFF0000


def bpf(architecture: int, calls: Mapping[int, SystemCall | None]) -> bytes:
    """Classic BPF: calls with a path, and those of another architecture, stop; all others run."""
    rows = [(0x20, 0, 0, 4), (0x15, 1, 0, architecture), (0x06, 0, 0, _RET_TRACE), (0x20, 0, 0, 0)]
    count = len(calls)
    for place, number in enumerate(sorted(calls)):
        rows.append((0x15, count - place, 0, number))
    rows += [(0x06, 0, 0, _RET_ALLOW), (0x06, 0, 0, _RET_TRACE)]
    return b"".join(struct.pack("<HBBI", *row) for row in rows)


# ptrace(2) and /proc: what a process that has stopped was about to do.
#
# Numbers of linux/ptrace.h, linux/prctl.h, linux/seccomp.h and linux/wait.h.

TRACEME, CONT, SETOPTIONS, GET_SYSCALL_INFO = 0, 7, 0x4200, 0x420E
OPTIONS = 0x100000 | 0x2 | 0x4 | 0x8 | 0x10 | 0x80  # EXITKILL; FORK, VFORK, CLONE, EXEC; SECCOMP
EVENT_EXEC, EVENT_SECCOMP, EVENTS_NEW_PROCESS = 4, 7, (1, 2, 3)
SECCOMP_STOP = 3
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 1, 38, 22, 2
WALL, WNOTHREAD = 0x40000000, 0x20000000


_MOST_WORD, _PIECE = 1 << 17, 256


class _Vector(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p), ("size", ctypes.c_size_t))


class Unobservable(Exception):
    """A process did something that a list of paths cannot stand for."""


@dataclass(frozen=True)
class Ptrace:
    """Requests about processes that this thread traces. Raises OSError."""

    libc: ctypes.CDLL

    @classmethod
    def of_this_machine(cls) -> Ptrace:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
        libc.ptrace.restype = ctypes.c_long
        vectors = ctypes.POINTER(_Vector), ctypes.c_ulong
        libc.process_vm_readv.argtypes = (ctypes.c_int, *vectors, *vectors, ctypes.c_ulong)
        libc.process_vm_readv.restype = ctypes.c_ssize_t
        return cls(libc)

    def request(self, request: int, pid: int, data: int = 0, address: int = 0) -> None:
        if self.libc.ptrace(request, pid, address or None, data or None) < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    def info(self, pid: int) -> tuple[int, int, tuple[int, ...]]:
        """(kind of stop, number of the call, its arguments): struct ptrace_syscall_info."""
        buffer = ctypes.create_string_buffer(96)
        self.request(GET_SYSCALL_INFO, pid, ctypes.addressof(buffer), len(buffer))
        number, *arguments = struct.unpack_from("<7Q", buffer, 24)
        return buffer.raw[0], number, tuple(arguments)

    def argv(self, pid: int, address: int) -> tuple[str, ...]:
        words: list[str] = []
        while pointer := self.word(pid, address + 8 * len(words)):
            words.append(self.string(pid, pointer))
        return tuple(words)

    def word(self, pid: int, address: int) -> int:
        return int.from_bytes(self._read(pid, address, 8), "little")

    def string(self, pid: int, address: int) -> str:
        return os.fsdecode(b"".join(self._bytes(pid, address)))

    def _bytes(self, pid: int, address: int) -> Iterator[bytes]:
        end = address + _MOST_WORD
        while address < end:
            piece = self._read(pid, address, _PIECE - address % _PIECE)  # never beyond a page
            head, found, _ = piece.partition(b"\0")
            yield head
            if found:
                return
            address += len(piece)
        raise Unobservable("a word of more than 128 KiB")

    def _read(self, pid: int, address: int, size: int) -> bytes:
        here, there = ctypes.create_string_buffer(size), _Vector(address, size)
        got = self.libc.process_vm_readv(pid, _Vector(ctypes.addressof(here), size), 1, there, 1, 0)
        if got <= 0:
            raise OSError(ctypes.get_errno(), "its memory cannot be read")
        return here.raw[:got]


def words_of(pid: int, name: str) -> tuple[str, ...]:
    """The words in the process's `cmdline` or `environ`."""
    with open(f"/proc/{pid}/{name}", "rb") as file:
        content = file.read()
    return tuple(os.fsdecode(word) for word in content.split(b"\0")[:-1])


def _limits(process: int | str) -> bytes:
    """Its resource limits (proc_pid_limits(5)). Raises OSError."""
    with open(f"/proc/{process}/limits", "rb") as file:
        return file.read()


def working_directory(pid: int, cwd: str) -> str:
    """That of the process: as `cwd` spells it, if it is the same. Raises OSError."""
    found = f"/proc/{pid}/cwd"
    return cwd if os.path.samefile(found, cwd) else os.readlink(found)


def is_script(pid: int, raw: str) -> bool:
    """Is the process the interpreter of the program that it was to become?"""
    return not os.path.samefile(f"/proc/{pid}/exe", os.path.join(f"/proc/{pid}/cwd", raw))


def name_and_value(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value


# When bash starts, it sees whether it has a terminal (`check_dev_tty` in shell.c), and closes it at once. What a script
# opens to be read and written has O_CREAT, too, and no O_NONBLOCK.
_TERMINAL, _BASHS_LOOK = "/dev/tty", os.O_RDWR | os.O_NONBLOCK

# The one thing for which a process may have a socket: to ask for users' names where nobody answers. bash wants to know
# the user's shell if SHELL is not set, as in many containers, and the C library asks nscd(8) before it reads
# /etc/passwd.
_UNIX, _STREAM, _TYPE = 1, 1, 0xF  # AF_UNIX, SOCK_STREAM, and the bits of a type that are no flags
_FAMILY = 2  # bytes of sockaddr_un (unix(7)) before its path
_NAMES = ("/run/nscd/socket", "/var/run/nscd/socket")

Wanted = Callable[[tuple[str, ...]], bool]
_Place = tuple[str, tuple[str, ...], dict[str, str], tuple[tuple[str, ...], ...]]


@dataclass(frozen=True)
class WatchedEnd:
    """The end of a watch: `status` is the program's exit status. `seen`: (how, path) -> was it there? `reached`:
    program, argv, environment of the process that was looked for, and the commands of the other processes."""

    status: int
    stdout: bytes
    stderr: bytes
    seen: dict[tuple[str, str], bool]
    reached: _Place | None


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def watch(
    program: str, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], ignore: str, wanted: Wanted
) -> WatchedEnd | str:
    """Run `program` (an absolute path) with `argv`; in words why that cannot be watched.

    Nothing below directory `ignore` counts. The tree is watched until a process becomes a program with an argv that is
    wanted."""
    machine = MACHINES.get(os.uname().machine)
    if machine is None or not hasattr(os, "memfd_create"):
        return f"ptrace is not used on {os.uname().machine}"
    architecture, calls, changes = machine
    calls = {**calls, **changes}
    ptrace = Ptrace.of_this_machine()
    code = ctypes.create_string_buffer(bpf(architecture, calls))
    rules = _Program((len(code) - 1) // 8, ctypes.addressof(code))
    try:
        out, err = os.memfd_create("out"), os.memfd_create("err")
    except OSError as error:
        return f"no files in memory: {error.strerror}"
    words, environment = list(argv), dict(env)
    try:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _child(ptrace.libc, rules, (program, words, environment), cwd, (out, err), parent)
        watched = _Watched(ptrace, pid, calls, cwd, ignore, wanted, {pid})
        try:
            status = watched.follow()
        except (Unobservable, OSError) as error:
            return str(error) or type(error).__name__
        finally:
            watched.kill()
        return WatchedEnd(status, _content(out), _content(err), watched.seen, watched.reached)
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
        if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0 or os.getppid() != parent:
            os._exit(127)
        os.setpgid(0, 0)
        os.chdir(cwd)
        null = os.open(os.devnull, os.O_RDONLY)
        for target, source in enumerate((null, *outputs)):
            os.dup2(source, target)
        os.closerange(len(outputs) + 1, 1 << 16)
        if libc.ptrace(TRACEME, 0, None, None) != 0:
            os._exit(127)
        os.kill(os.getpid(), signal.SIGSTOP)
        for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            os._exit(127)
        if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(rules), 0, 0) != 0:
            os._exit(127)
        os.execve(*command)
    finally:
        os._exit(127)


def _content(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)


@dataclass
class _Watched:
    """The processes: each stops at a call with a path. We look at the path ourselves, and let the call go on."""

    _ptrace: Ptrace
    _root: int
    _calls: Mapping[int, SystemCall | None]
    _cwd: str
    _ignore: str
    _wanted: Wanted
    _live: set[int]
    seen: dict[tuple[str, str], bool] = field(default_factory=dict)
    reached: _Place | None = None
    _becoming: dict[int, tuple[str, tuple[str, ...]]] = field(default_factory=dict)

    def kill(self) -> None:
        """End what is left of the processes, and wait for them."""
        with suppress(ChildProcessError):  # there are none
            while True:
                for target in (self._root, -self._root):
                    if target < 0 or target in self._live:
                        with suppress(ProcessLookupError):
                            os.kill(target, signal.SIGKILL)
                self._wait()

    def follow(self) -> int:
        """The exit status. Raises Unobservable, OSError."""
        _, status = os.waitpid(self._root, WALL)
        if not os.WIFSTOPPED(status):
            self._live.clear()
            raise Unobservable("ptrace is not allowed")
        self._ptrace.request(SETOPTIONS, self._root, OPTIONS)
        self._ptrace.request(CONT, self._root)
        while self.reached is None:
            pid, status = self._wait()
            if not os.WIFSTOPPED(status):
                if pid != self._root:
                    continue
                if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 127:
                    return os.WEXITSTATUS(status)
                raise Unobservable("it does not start, or is ended by a signal")
            self._stopped(pid, os.WSTOPSIG(status), status >> 16)
        return 0

    def _stopped(self, pid: int, number: int, event: int) -> None:
        if event == EVENT_SECCOMP:
            self._enter(pid)
        elif event == EVENT_EXEC:
            self._became(pid)
        elif event in EVENTS_NEW_PROCESS:
            self._ptrace.request(CONT, pid)
        elif event:
            raise Unobservable(f"it stops for ptrace event {event}")
        elif pid not in self._live:
            self._live.add(pid)  # a new process begins with a stop
            self._ptrace.request(CONT, pid)
        else:
            self._ptrace.request(CONT, pid, 0 if number == signal.SIGTRAP else number)

    def _enter(self, pid: int) -> None:
        kind, number, arguments = self._ptrace.info(pid)
        call = self._calls.get(number)
        if kind != SECCOMP_STOP or call is None:
            raise Unobservable(f"it makes system call {number}")
        if call in (SOCKET, CONNECT):
            if call == SOCKET:
                _check_socket(arguments)
            else:
                self._note(pid, STAT, _connected_to(self._ptrace, pid, arguments))
            self._ptrace.request(CONT, pid)
            return
        raw = self._ptrace.string(pid, arguments[call.path])
        flags = arguments[call.flags] if call.flags >= 0 else 0
        if call.how_at >= 0:
            flags = self._ptrace.word(pid, arguments[call.how_at])
        directory = arguments[call.directory] if call.directory >= 0 else AT_FDCWD
        how = LINK if flags & call.no_follow else call.how
        if call is CHDIR:  # the process may ask for the name of where it is then, which links decide
            for path in components(os.path.join(working_directory(pid, self._cwd), raw)):
                self._note(pid, LINK, path)
            raw = ""
        elif call is EXEC:
            self._becoming[pid] = raw, self._ptrace.argv(pid, arguments[1])
        elif how == READ and flags & OPEN_FLAGS_WRITE:
            harmless = raw == os.devnull or (raw == _TERMINAL and flags == _BASHS_LOOK)
            if not harmless and not raw.startswith(self._ignore + "/"):
                raise Unobservable(f"it writes '{raw}'")
            raw = ""
        elif how == READ and flags & os.O_DIRECTORY:
            how = LIST
        if raw:
            self._note(pid, how, raw, directory)
        self._ptrace.request(CONT, pid)

    def _became(self, pid: int) -> None:
        """An exec that works: the process is another program now, which has not begun yet."""
        if pid not in self._becoming:
            raise Unobservable("a thread starts another program")
        raw, argv = self._becoming.pop(pid)
        # The kernel itself opens a script's interpreter.
        self._note(pid, READ, os.readlink(f"/proc/{pid}/exe"))
        if self._wanted(argv) and not is_script(pid, raw):
            environ = dict(name_and_value(word) for word in words_of(pid, "environ"))
            waiting = tuple(words for other in sorted(self._live - {pid}) if (words := words_of(other, "cmdline")))
            if working_directory(pid, self._cwd) != self._cwd:
                raise Unobservable("it compiles in another directory")
            if _limits(pid) != _limits("self"):
                raise Unobservable("it changes resource limits")
            self.reached = os.path.join(self._cwd, raw), argv, environ, waiting
            return
        self._ptrace.request(CONT, pid)

    def _note(self, pid: int, how: str, raw: str, directory: int = AT_FDCWD) -> None:
        path = raw
        if not raw.startswith("/"):
            if directory & 0xFFFFFFFF == AT_FDCWD & 0xFFFFFFFF:
                path = os.path.join(working_directory(pid, self._cwd), raw)
            else:
                path = os.path.join(os.readlink(f"/proc/{pid}/fd/{directory}"), raw)
        elif raw.startswith("/proc/self/"):
            path = absolute(raw, working_directory(pid, self._cwd))
        if path in HARMLESS or is_own(path) or (path + "/").startswith(self._ignore + "/"):
            return  # itself, and what it has open: seen when it was opened
        there = os.path.lexists(path) if how == LINK else os.path.exists(path)
        # Of what is not there, that is all that there is to see: as of a GPU's device.
        if is_of_kernel(path) and not path.startswith(GPUS) and os.path.lexists(path):
            raise Unobservable(f"it queries the machine: '{path}'")
        if self.seen.setdefault((how, path), there) != there:
            raise Unobservable(f"'{path}' changes while it runs")

    def _wait(self) -> tuple[int, int]:
        pid, status = os.waitpid(-self._root, WALL | WNOTHREAD)
        if not os.WIFSTOPPED(status):
            self._live.discard(pid)
            self._becoming.pop(pid, None)
        return pid, status


def _check_socket(arguments: Sequence[int]) -> None:
    """`arguments` of socket(2): one that can say nothing before it is connected. Raises Unobservable."""
    if arguments[0] != _UNIX or arguments[1] & _TYPE != _STREAM:
        raise Unobservable("it asks another process")


def _connected_to(ptrace: Ptrace, pid: int, arguments: Sequence[int]) -> str:
    """`arguments` of connect(2): the path of a socket that is not there. Raises Unobservable."""
    name = ptrace.string(pid, arguments[1] + _FAMILY) if arguments[2] > _FAMILY else ""
    if name not in _NAMES or os.path.lexists(name):
        raise Unobservable("it asks another process")
    return name
