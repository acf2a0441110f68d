"""The one thing for which a watched process may have a socket: to ask for users' names where nobody answers.

bash wants to know the user's shell if SHELL is not set, as in many containers, and the C library asks nscd(8) before it
reads /etc/passwd.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from hipcache.processes.ptrace import Ptrace, Unobservable

_UNIX, _STREAM, _TYPE = 1, 1, 0xF  # AF_UNIX, SOCK_STREAM, and the bits of a type that are no flags
_FAMILY = 2  # bytes of sockaddr_un (unix(7)) before its path
_NAMES = ("/run/nscd/socket", "/var/run/nscd/socket")


def check_socket(arguments: Sequence[int]) -> None:
    """`arguments` of socket(2): one that can say nothing before it is connected. Raises Unobservable."""
    if arguments[0] != _UNIX or arguments[1] & _TYPE != _STREAM:
        raise Unobservable("it asks another process")


def connected_to(ptrace: Ptrace, pid: int, arguments: Sequence[int]) -> str:
    """`arguments` of connect(2): the path of a socket that is not there. Raises Unobservable."""
    name = ptrace.string(pid, arguments[1] + _FAMILY) if arguments[2] > _FAMILY else ""
    if name not in _NAMES or os.path.lexists(name):
        raise Unobservable("it asks another process")
    return name
