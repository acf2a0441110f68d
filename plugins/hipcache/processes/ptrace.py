"""ptrace(2) and /proc: what a process that has stopped was about to do.

Numbers of linux/ptrace.h, linux/prctl.h, linux/seccomp.h and linux/wait.h.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Iterator

from hipcache.values import dataclass

TRACEME, CONT, SYSCALL, SETOPTIONS, GET_SYSCALL_INFO = 0, 7, 24, 0x4200, 0x420E
OPTIONS = 0x100001 | 0x2 | 0x4 | 0x8 | 0x10 | 0x80  # EXITKILL, TRACESYSGOOD; FORK, VFORK, CLONE, EXEC; SECCOMP
EVENT_EXEC, EVENT_SECCOMP, EVENTS_NEW_PROCESS = 4, 7, (1, 2, 3)
EXIT, SECCOMP_STOP = 2, 3
SYSCALL_STOP = signal.SIGTRAP | 0x80
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 1, 38, 22, 2
WALL, WNOTHREAD = 0x40000000, 0x20000000


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
        return cls(libc)

    def request(self, request: int, pid: int, data: int = 0, address: int = 0) -> None:
        if self.libc.ptrace(request, pid, address or None, data or None) < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    def info(self, pid: int) -> tuple[int, int, tuple[int, ...], int]:
        """(kind of stop, number of the call, its arguments, its answer): struct ptrace_syscall_info."""
        buffer = ctypes.create_string_buffer(96)
        self.request(GET_SYSCALL_INFO, pid, ctypes.addressof(buffer), len(buffer))
        kind = buffer.raw[0]
        if kind == EXIT:
            return kind, -1, (), struct.unpack_from("<q", buffer.raw, 24)[0]
        number, *arguments = struct.unpack_from("<7Q", buffer.raw, 24)
        return kind, number, tuple(arguments), 0

    def argv(self, pid: int, address: int) -> tuple[str, ...]:
        words: list[str] = []
        while pointer := self.word(pid, address + 8 * len(words)):
            words.append(self.string(pid, pointer))
        return tuple(words)

    def word(self, pid: int, address: int) -> int:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return int.from_bytes(memory.read(8), "little")

    def string(self, pid: int, address: int) -> str:
        return os.fsdecode(b"".join(self._bytes(pid, address)))

    def _bytes(self, pid: int, address: int) -> Iterator[bytes]:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            for _ in range(512):
                piece = memory.read(256)
                head, end, _ = piece.partition(b"\0")
                yield head
                if end or not piece:
                    return
        raise Unobservable("a word of more than 128 KiB")


def words_of(pid: int, name: str) -> tuple[str, ...]:
    """The words in the process's `cmdline` or `environ`."""
    with open(f"/proc/{pid}/{name}", "rb") as file:
        content = file.read()
    return tuple(os.fsdecode(word) for word in content.split(b"\0")[:-1])


def name_and_value(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value
