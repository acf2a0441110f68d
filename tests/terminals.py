"""A command in a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path


def in_terminal(argv: Sequence[str], cwd: Path, environ: Mapping[str, str], columns: int = 60) -> tuple[int, bytes]:
    """(exit status, what was printed) of a command in a terminal of that many columns."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
    process = subprocess.Popen(argv, cwd=cwd, env=environ, stdin=follower, stdout=follower, stderr=follower)
    os.close(follower)
    received = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        if not piece:
            break
        received += piece
    os.close(leader)
    return process.wait(), received
