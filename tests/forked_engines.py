"""Engines of tests that are forked off a process which has imported all: each spares a tenth of a second of CPU.

The launcher of tests finds `forked_engine.c` for its engine, which asks `engine_server.py`, or starts the real one.
"""

from __future__ import annotations

import atexit
import functools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HERE = Path(__file__).parent
_CLANG = "/usr/lib/llvm-15/bin/clang"
_lock = threading.Lock()
_within = 0


def build(directory: Path, engine: str) -> None:
    """Put an engine into `directory`, which asks the server, and beside it the one that is started by itself, of the
    text `engine`."""
    (directory / "hipcache-engine.py").write_text(engine)
    words = [_CLANG, "-std=c2x", "-O1", "-Wall", "-Wextra", "-Werror", f'-DPYTHON="{sys.executable}"']
    subprocess.run([*words, _HERE / "forked_engine.c", "-o", directory / "hipcache-engine"], check=True)


@contextmanager
def allowed(launcher: str, memos: Path) -> Iterator[None]:
    """Engines may be forked meanwhile; the first call starts the server."""
    global _within  # noqa: PLW0603
    directory = Path(launcher).parent
    _serve(directory, memos)
    with _lock:
        _within += 1
        (directory / "allowed").touch()
    try:
        yield
    finally:
        with _lock:
            _within -= 1
            if not _within:
                (directory / "allowed").unlink()


@functools.cache
def _serve(directory: Path, memos: Path) -> None:
    words = [sys.executable, "-E", _HERE / "engine_server.py", directory, memos]
    environ = {**os.environ, "LC_ALL": "C"}  # as in a lab
    server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ)
    assert server.stdout is not None
    if server.stdout.readline() != b"ready\n":
        raise RuntimeError(f"{words} did not start")
    atexit.register(server.communicate)  # it ends with its standard input
