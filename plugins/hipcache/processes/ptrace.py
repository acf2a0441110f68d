"""ptrace(2) and /proc: what a process that has stopped was about to do.

Numbers of linux/ptrace.h, linux/prctl.h, linux/seccomp.h and linux/wait.h.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator

from hipcache.values import dataclass

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
