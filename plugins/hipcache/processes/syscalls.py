"""The system calls that take a path: how the kernel numbers them, where their paths are, and a filter that stops there.

A call whose entry is None is one that a list of paths cannot stand for.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping

from hipcache.values import dataclass

# The ways to look at a path.
STAT, LINK, READ, LIST = "stat", "link", "read", "list"
# What is no path (the root stands for one): the processor, by instructions that no list shows (native/processor.c).
PROCESSOR = "processor"
# The kernel lists the AMD GPUs here (ROCm's libraries also look through all of PCI, and for memory nodes): files that
# can be looked at again, unlike all else that is asked of the machine.
GPUS = ("/sys/class/kfd/", "/sys/bus/pci", "/sys/devices/")

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
SOCKET, CONNECT = SystemCall("socket", -1), SystemCall("connect", 1)  # see `watch`
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
