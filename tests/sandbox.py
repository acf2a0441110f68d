"""Words before a command that take a system call from it, as an older kernel or a container's sandbox does."""

from __future__ import annotations

import sys

# A filter of seccomp(2), "if the call is openat2 then ENOSYS": four struct sock_filter, classic BPF. The number is that
# of all architectures. Status 98 where the filter does not work.
_REFUSE = """\
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
filters = struct.pack("HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, 437, 0x06, 0, 0, 0x50026, 0x06, 0, 0, 0x7FFF0000)
code = ctypes.create_string_buffer(filters)
program = struct.pack("HP", 4, ctypes.addressof(code))
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0):
    sys.exit(98)
if libc.syscall(437, -100, b"/", bytes(24), 24) != -1 or ctypes.get_errno() != 38:
    sys.exit(98)
os.execv(sys.argv[1], sys.argv[1:])
"""
WITHOUT_OPENAT2 = (sys.executable, "-I", "-S", "-c", _REFUSE)
